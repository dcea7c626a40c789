"""What every memory must do, as scenarios that are played on any of them: memorywire's sixteen, and Quipu's own."""
