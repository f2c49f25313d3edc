"""The REST interface: thin routes over the parts of a service."""
