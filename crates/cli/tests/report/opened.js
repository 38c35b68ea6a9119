// Returns the load time of the page in milliseconds.
() => performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd
