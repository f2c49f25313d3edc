"""What `anchorage` measures about itself."""
