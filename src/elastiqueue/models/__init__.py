"""The models: what each system is, its events and rates, and its compiled simulator."""
