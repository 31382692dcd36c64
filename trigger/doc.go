// Package trigger keeps the events that start agents, each with an origin that the service verified itself, and signs
// for one event and one binding the two artifacts that say so: the trigger origin proof and the trigger receipt (seed:
// createTriggerOriginProof, createTriggerReceipt).
//
// A [Service] has sources. A [Webhook] verifies signed deliveries ([NewGitHub], [NewStandard], [NewEngine]), a
// [Schedule] fires at the times of a cron expression, a [Queue] claims messages from a spool directory. What they bring
// in becomes a durable [Event]; what arrives twice becomes one event. What somebody merely reports ([Service.Report])
// is kept to be seen and is never evidence.
//
// A runtime claims an event ([Service.Claim]) and then asks for evidence, post by post ([Service.Evidence]). The event
// pays for a bounded number of posts of each action, and each payment is durable before anything is signed.
//
// # Where things are
//
//	service.go   Service: its options, its sources at work, its events
//	event.go     Event: what is kept, and what a source has to bring
//	sources.go   the sources in force, which a reload changes
//	webhook.go   Webhook: a signed delivery; github.go and standard.go have the schemes, deliver.go the HTTP handler
//	schedule.go  Schedule: events at the times of a cron expression; firetimes.go says which those are where clocks change
//	queue.go     Queue: messages in a spool directory
//	report.go    what somebody reports, without evidence
//	claim.go     an event is given to a runtime, given back, or done
//	evidence.go  an event pays for a post, and two artifacts are signed
//	store.go     the events' file: statements and transactions; schema.go has its tables
//	server.go    the internal API; client.go asks it
package trigger
