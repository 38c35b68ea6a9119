// How many milliseconds the page took to be there.
() => performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd
