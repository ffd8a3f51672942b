"""What commands do with rows, plans, processes and the emulated network. Imported only when it is done."""
