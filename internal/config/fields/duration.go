package fields

import (
	"errors"
	"fmt"
	"time"
)

// Duration is a duration such as 15s; zero where the file sets none.
type Duration time.Duration

// UnmarshalText refuses 0s, which the default would silently replace.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil || parsed < 0 {
		return fmt.Errorf("must be a duration such as 15s or 24h, not %.40q", text)
	}
	if parsed == 0 {
		return errors.New("must be above 0s; leave it out for the default")
	}
	*d = Duration(parsed)
	return nil
}

// Or returns d, or def if d is zero.
func (d Duration) Or(def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return time.Duration(d)
}

// Time is a time in Unix seconds; zero where the file sets none.
type Time int64

// UnmarshalText reads a date, which is its first moment in UTC, or a time by RFC 3339.
func (t *Time) UnmarshalText(text []byte) error {
	parsed, err := time.Parse(time.DateOnly, string(text))
	if err != nil {
		parsed, err = time.Parse(time.RFC3339, string(text))
	}
	if err != nil || parsed.Unix() <= 0 || parsed.UTC().Year() > 9999 {
		return fmt.Errorf("must be a date such as 2027-01-31, or a time such as 2027-01-31T09:00:00Z, not %.40q", text)
	}
	*t = Time(parsed.Unix())
	return nil
}

// Time returns t, or the zero time if the file sets none.
func (t Time) Time() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.Unix(int64(t), 0).UTC()
}
