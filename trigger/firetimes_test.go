package trigger_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata"

	"github.com/robfig/cron/v3"

	"github.com/actionproof/mediator/trigger"
)

// firesOn returns an expression's fire times from noon (UTC) before a date to noon after it.
func firesOn(t *testing.T, spec, zone, date string) []string {
	t.Helper()
	s := schedule(t, "s", spec, zone)
	day := must(time.Parse("2006-01-02 15:04", date+" 12:00"))(t)
	var fired []string
	for at := trigger.Next(s, day.AddDate(0, 0, -1)); at.Before(day.AddDate(0, 0, 1)) &&
		!at.IsZero(); at = trigger.Next(s, at) {
		fired = append(fired, at.UTC().Format("02T15:04"))
	}
	return fired
}

// TestClockChanges checks that each time that an expression names fires once. Comments say what the clock does.
func TestClockChanges(t *testing.T) {
	for _, c := range []struct {
		zone, date, spec string
		want             []string
	}{
		// From 02:00 to 03:00 at 01:00 UTC.
		{"Europe/Berlin", "2026-03-29", "15 2 * * *", []string{"29T01:00", "30T00:15"}},
		{"Europe/Berlin", "2026-03-29", "0 2 * * *", []string{"29T01:00", "30T00:00"}},
		{"Europe/Berlin", "2026-03-29", "0 3 * * *", []string{"29T01:00", "30T01:00"}},
		{"Europe/Berlin", "2026-03-29", "15,45 2,3 * * *",
			[]string{"29T01:00", "29T01:15", "29T01:45", "30T00:15", "30T00:45", "30T01:15", "30T01:45"}},
		{"Europe/Berlin", "2026-03-29", "*/30 1-4 29 3 *",
			[]string{"29T00:00", "29T00:30", "29T01:00", "29T01:30", "29T02:00", "29T02:30"}},
		{"Europe/Berlin", "2026-03-29", "15 2 * * 0", []string{"29T01:00"}},
		// From 03:00 to 02:00 at 01:00 UTC.
		{"Europe/Berlin", "2026-10-25", "15 2 * * *", []string{"25T00:15", "26T01:15"}},
		{"Europe/Berlin", "2026-10-25", "0 2 * * *", []string{"25T00:00", "26T01:00"}},
		{"Europe/Berlin", "2026-10-25", "0 3 * * *", []string{"25T02:00", "26T02:00"}},
		{"Europe/Berlin", "2026-10-25", "*/30 1-3 25 10 *",
			[]string{"24T23:00", "24T23:30", "25T00:00", "25T00:30", "25T02:00", "25T02:30"}},
		{"Europe/Berlin", "2026-10-25", "@daily", []string{"24T22:00", "25T23:00"}},
		// From 02:00 to 03:00 at 07:00 UTC, and back at 06:00 UTC.
		{"America/New_York", "2026-03-08", "30 2 * * *", []string{"08T07:00", "09T06:30"}},
		{"America/New_York", "2026-11-01", "30 1 * * *", []string{"01T05:30", "02T06:30"}},
		// By half an hour: from 02:00 to 02:30 at 15:30 UTC the day before, and from 02:00 to 01:30 at 15:00 UTC.
		{"Australia/Lord_Howe", "2026-10-04", "15 2 * * *", []string{"03T15:30", "04T15:15"}},
		{"Australia/Lord_Howe", "2026-10-04", "*/15 2 4 10 *", []string{"03T15:30", "03T15:45"}},
		{"Australia/Lord_Howe", "2026-04-05", "45 1 * * *", []string{"04T14:45", "05T15:15"}},
		{"Australia/Lord_Howe", "2026-04-05", "*/15 1,2 5 4 *",
			[]string{"04T14:00", "04T14:15", "04T14:30", "04T14:45", "04T15:30", "04T15:45", "04T16:00", "04T16:15"}},
		// At midnight: from 00:00 to 01:00 at 03:00 UTC, and from 00:00 to 23:00 of the day before at 02:00 UTC.
		{"America/Sao_Paulo", "2018-11-04", "@daily", []string{"04T03:00", "05T02:00"}},
		{"America/Sao_Paulo", "2018-11-04", "30 0 4 11 *", []string{"04T03:00"}},
		{"America/Sao_Paulo", "2018-02-18", "@daily", []string{"18T03:00", "19T03:00"}},
		{"America/Sao_Paulo", "2018-02-18", "30 23 * * *", []string{"18T01:30", "19T02:30"}},
		{"America/Sao_Paulo", "2018-02-17", "30 23 17 2 *", []string{"18T01:30"}},
		{"Asia/Beirut", "2026-03-29", "0 0 * * *", []string{"28T22:00", "29T21:00"}},
		{"Asia/Beirut", "2026-10-25", "0 0 * * *", []string{"24T22:00", "25T22:00"}},
		{"Asia/Beirut", "2026-10-25", "30 23 * * *", []string{"24T20:30", "25T21:30"}},
		// By two hours: from 01:00 to 03:00 at 01:00 UTC.
		{"Antarctica/Troll", "2026-03-29", "30 1,2 * * *", []string{"29T01:00", "29T23:30", "30T00:30"}},
		// A whole day that never was: the 30th of December, until 10:00 UTC of which it was the 29th.
		{"Pacific/Apia", "2011-12-30", "15 2 * * *", []string{"29T12:15", "30T10:00", "30T12:15"}},
		// A period is no time on a clock.
		{"Europe/Berlin", "2026-10-25", "@every 8h",
			[]string{"24T16:00", "25T00:00", "25T08:00", "25T16:00", "26T00:00", "26T08:00"}},
	} {
		t.Run(c.zone+" "+c.date+" "+c.spec, func(t *testing.T) {
			if got := firesOn(t, c.spec, c.zone, c.date); !slices.Equal(got, c.want) {
				t.Errorf("fires at %v, want %v", got, c.want)
			}
		})
	}
}

// TestFireTimesMinuteByMinute compares a year of fire times with a wall clock, minute by minute.
func TestFireTimesMinuteByMinute(t *testing.T) {
	for _, c := range []struct {
		zone string
		year int
	}{
		{"Europe/Berlin", 2026}, {"Europe/Dublin", 2050}, {"Australia/Lord_Howe", 2026}, {"America/Sao_Paulo", 2018},
		{"Asia/Beirut", 2026},
		{"Africa/Casablanca", 2026}, {"Antarctica/Troll", 2026}, {"Pacific/Apia", 2011}, {"Pacific/Kwajalein", 1993},
		{"America/Caracas", 2016},
	} {
		t.Run(c.zone, func(t *testing.T) {
			t.Parallel()
			zone := must(time.LoadLocation(c.zone))(t)
			begin, end := time.Date(c.year, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(c.year+1, 1, 1, 0, 0, 0, 0, time.UTC)
			var shown []time.Time // by the minute of the year
			for at := begin; at.Before(end); at = at.Add(time.Minute) {
				local := at.In(zone)
				shown = append(shown,
					time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), 0, 0, time.UTC))
			}
			for _, spec := range []string{"15 2 * * *", "*/20 * * * *", "@daily", "30 0-3 29-31 * 0"} {
				var want, got []time.Time
				inUTC := must(cron.ParseStandard(spec))(t)
				wanted := inUTC.Next(shown[0])
				for minute, now := range shown {
					if !wanted.After(now) {
						want, wanted = append(want, begin.Add(time.Duration(minute)*time.Minute)), inUTC.Next(now)
					}
				}
				s := schedule(t, "s", spec, c.zone)
				for at := trigger.Next(s, begin); at.Before(end) && !at.IsZero(); at = trigger.Next(s, at) {
					got = append(got, at.UTC())
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s: %d fire times and not %d", spec, len(got), len(want))
				}
			}
		})
	}
}

// TestScheduleOverClockChange runs a schedule over a change, with restarts before and within it, and with a pause over
// its time.
func TestScheduleOverClockChange(t *testing.T) {
	const october, march = "2026-10-25T00:00:00Z", "2026-03-29T00:00:00Z"
	for _, c := range []struct {
		name, from, spec string
		missed           trigger.Missed
		runs, pause      time.Duration // it runs, pauses, and runs again
		want             []string
	}{
		{"back, with a restart", october, "15 2 * * *", trigger.SkipMissed, 50 * time.Minute, time.Minute,
			[]string{"2026-10-25T00:15:00Z"}},
		{"back, with a restart that makes up", october, "15 2 * * *", trigger.FireLatest, 50 * time.Minute, time.Minute,
			[]string{"2026-10-25T00:15:00Z"}},
		{"back, with a restart in the second hour", october, "15 2 * * *", trigger.FireLatest, 65 * time.Minute, time.Minute,
			[]string{"2026-10-25T00:15:00Z"}},
		{"back, each quarter", october, "*/15 2,3 * * *", trigger.SkipMissed, 65 * time.Minute, time.Minute,
			[]string{"2026-10-25T00:15:00Z", "2026-10-25T00:30:00Z", "2026-10-25T00:45:00Z", "2026-10-25T02:00:00Z"}},
		{"forward, with a restart", march, "15 2 * * *", trigger.SkipMissed, 55 * time.Minute, time.Minute,
			[]string{"2026-03-29T01:00:00Z"}},
		{"forward, away", march, "15 1,2 * * *", trigger.SkipMissed, 55 * time.Minute, 10 * time.Minute,
			[]string{"2026-03-29T00:15:00Z"}},
		{"forward, away, and made up", march, "15 1,2 * * *", trigger.FireLatest, 55 * time.Minute, 10 * time.Minute,
			[]string{"2026-03-29T00:15:00Z", "2026-03-29T01:00:00Z"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ahead := time.Until(must(time.Parse(time.RFC3339, c.from))(t))
				s := schedule(t, "s", c.spec, "Europe/Berlin")
				s.Missed = c.missed
				k := bubble(t, func(o *trigger.Options) {
					o.Sources, o.Now = []trigger.Source{s}, func() time.Time { return time.Now().Add(ahead) }
				})
				defer func() { k.Close() }()
				stop := k.run(t)
				time.Sleep(c.runs)
				stop()
				time.Sleep(c.pause)
				k.restart(t)
				stop = k.run(t)
				time.Sleep(2*time.Hour + time.Minute - c.runs - c.pause)
				stop()
				wantTimes(t, k, c.want...)
			})
		})
	}
}
