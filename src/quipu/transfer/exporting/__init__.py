"""Taking memories out: as signed bundles, as files of other products, or one by one."""
