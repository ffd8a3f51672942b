"""Many runs at a time: seeds, every crash of small runs, and the record of what came of them."""
