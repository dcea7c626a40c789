"""Runs of workflows (OpenWOP): each sees memory as it was when it began, and its log names what it wrote."""
