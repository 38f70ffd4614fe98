"""The Python interface, which the commands are thin over: scenarios in, results with errors out."""
