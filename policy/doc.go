// Package policy holds what a deployment demands and who decides single posts: the strict deployment manifest with its audit and
// certificate, the policy engine that evaluates CEL rules and grants exactly what they allow, and the assurance report.
//
// A [Manifest] is parsed strictly, audited ([Manifest.Audit]), certified by the deployment auditor ([Certify]) and turned into what
// the gate demands of each artifact ([Manifest.Strict]). [Rules] are compiled once; an [Engine] holds them against one post and the
// trigger evidence behind it, which it verifies itself, and signs a decision and a grant with two different keys.
package policy
