"""OpenWOP's memory layer over HTTP: runs, their logs, forks, agents, and the seams that conformance runs look through."""
