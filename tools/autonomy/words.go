package autonomy

import "strings"

// The words of which texts are made.
var (
	articles     = strings.Fields("the the the the a a this that each its our any every some the")
	prepositions = strings.Fields(
		"of in to for with on at from by about after before within without under across during against per via into over " +
			"between")
	conjunctions = strings.Fields("and and but so because while if when although since which as unless until whereas")
	adverbs      = strings.Fields(
		"also now however first then usually often only still already therefore instead finally generally currently " +
			"previously directly probably carefully quickly nearly rarely roughly")
	pronouns = strings.Fields("it we they it this I you these one it we")
	modals   = strings.Fields("can should will may must could would might is was are were has")

	commonNouns = strings.Fields(
		`result value case part point way time list set order check step reason change error test state form level
		rate group
		problem question answer option section line detail range limit source target rule output input note number
		item kind example effect issue process
		record name version method report model plan view path total field review summary data context task request
		response`)
	verbs = strings.Fields(
		`use make take find show give need keep return read write set run add remove change check compare include
		contain follow
		require describe suggest reduce increase handle store load send receive update create allow prevent explain
		confirm support depend cover report
		measure improve resolve fail pass match split merge parse validate track compute apply avoid consider produce
		affect replace expect ignore`)
	adjectives = strings.Fields(
		`new same other first last small large main common clear simple full empty valid open short long current different
		important likely possible available specific general recent single multiple early late correct missing stable
		slow fast relevant similar
		separate internal external final partial complete consistent strong weak`)
	stems = strings.Fields(
		`trans graph struct port mark tect form serv cept vert spec duct press scrib vis gen loc mov quant grad frag
		cred dict
		fer flex flu ject leg log man mit neg opt pel plic pos rupt sect sens sist spir tain tend tract val ven voc`)
	prefixes = strings.Fields("re de con pre sub inter un dis ex trans over pro co mis en out non anti semi auto")
	suffixes = strings.Fields("ion er able ment ive ance ing ed al or ity ness ism ure age ary ent ous ure ible")
)

// domains are the nouns of fields of work, each with names for files and things.
var domains = map[string][]string{
	"code": strings.Fields(
		`function parser buffer handler module package interface struct pointer thread queue cache index socket
		compiler branch commit
		token stream decoder mutex channel schema migration query endpoint client server timeout retry allocator
		iterator closure dependency
		assertion fixture benchmark regression stack trace exception config flag linter formatter goroutine context
		deadline header payload`),
	"research": strings.Fields(
		`study paper sample survey estimate cohort method bias variance trial population dataset author journal
		hypothesis baseline
		correlation effect interval evidence literature experiment outcome measurement replication trend indicator
		emissions policy market region
		forecast temperature adoption capacity investment regulation subsidy consumption household turbine battery grid`),
	"support": strings.Fields(
		`customer order refund invoice parcel account subscription payment ticket address warehouse delivery return
		voucher card
		delay carrier label exchange warranty discount receipt complaint shipment balance charge login password
		profile newsletter agent chat
		reservation booking flight seat luggage itinerary upgrade`),
	"operations": strings.Fields(
		`alert incident host node cluster pod deployment replica latency throughput disk memory volume network
		gateway probe
		dashboard metric log quota backup restore failover certificate region zone balancer rollback release pipeline
		runbook pager threshold
		saturation capacity partition broker consumer offset lag checkpoint`),
	"finance": strings.Fields(
		`account ledger entry asset liability revenue margin quarter audit invoice accrual budget forecast expense
		tax reserve
		portfolio position exposure hedge yield bond equity dividend settlement counterparty collateral maturity
		coupon volatility drawdown
		reconciliation balance statement receivable payable depreciation`),
	"letters": strings.Fields(
		`chapter scene character voice garden window river letter morning kitchen brother sister winter storm harbour
		lamp road
		silence memory journey village night season mountain table story dream photograph train market child teacher
		summer island bridge
		orchard bicycle newspaper neighbour staircase`),
}

// slips are how people write in haste.
var slips = map[string]string{
	"you": "u", "are": "r", "because": "bc", "please": "pls", "should": "shoud", "the": "teh", "and": "adn",
	"with": "wiht", "that": "taht", "without": "w/o",
	"about": "abt", "really": "rly", "before": "befor", "different": "diffrent", "separate": "seperate", "which": "wich",
	"receive": "recieve", "would": "woud",
}
