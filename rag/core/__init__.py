"""The contracts every part shares: types, filters, ports and errors; standard library and numpy only."""
