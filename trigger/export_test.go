package trigger

import "time"

func Next(c *Schedule, after time.Time) time.Time { return c.times.Next(after) }
