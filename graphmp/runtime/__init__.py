"""Running other people's programs: capturing their graphs, converting files, legacy imports."""
