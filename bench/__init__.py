"""How fast it is: one installation beside another, in alternating runs. Ratios count, times are this machine's."""
