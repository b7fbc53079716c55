// Package condition is the table of what can be wrong on the night of a sale: in a sentence each what it is,
// what it costs buyers and what to do now. The console, the API and the runbook in docs/operating.md say it in these
// words, and each alert of deploy/prometheus that says the same is named with it.
package condition

import (
	"time"

	"github.com/sluicehq/sluice"
)

// Urgency says how soon a person has to look.
type Urgency string

// The urgencies, as alerts have them; a note is good to know, and nothing is wrong.
const (
	Page    Urgency = "page" // at once
	Warning Urgency = "warning"
	Note    Urgency = "note"
)

// Text is a text in both languages.
type Text struct{ EN, ZH string }

// Condition is a row of the table.
type Condition struct {
	Name    string // in the API
	Urgency Urgency
	After   time.Duration // it counts once it has held for so long
	Section string        // the section of docs/operating.md, as its address has it
	Alerts  []string      // the alerts of deploy/prometheus that are raised by the same
	Ready   string        // the field of /readyz that says the same; empty: none does
	Check   string        // the line of sale check that does
	What    Text          // what is wrong
	Cost    Text          // what it costs buyers
	Do      Text          // what to do now

	judge func(*Seen) []found
}

// found is where a condition holds.
type found struct {
	sale   sluice.SaleID // empty: in all of them
	key    string        // tells findings apart that have no sale
	detail string        // what was seen, for people; may be empty
}

// Find returns the condition of this name; nil: there is none.
func Find(name string) *Condition {
	for i := range table {
		if table[i].Name == name {
			return &table[i]
		}
	}
	return nil
}

// table has the worst first: of several conditions, the first is the one to deal with.
var table = []Condition{
	{
		Name: "store_older", Urgency: Page, Section: "a-store-that-is-older-than-its-ledger",
		Alerts: []string{"SluiceFenced"}, Ready: "recover", Check: "loaded",
		What: Text{
			"The database is older than what has been sold: it was restored from a copy.",
			"数据库比账本旧：它是从旧备份恢复的。",
		},
		Cost: Text{
			"Nobody can buy in this sale, and payments are not taken, until a person recovers it.",
			"在有人恢复之前，这个活动没有人能购买，付款也不会被接受。",
		},
		Do: Text{
			"Look at what a recovery does, then recover the sale.",
			"先看恢复会做什么，再恢复这个活动。",
		},
		judge: ofSales(func(s *Sale) (bool, string) { return s.Outdated, s.Fence }),
	},
	{
		Name: "ledger_refuses", Urgency: Page, Section: "machines-and-clocks",
		Ready: "status", Check: "ledger settings",
		What: Text{
			"The ledger refuses to write: its memory or its disk is full.",
			"账本拒绝写入：内存或磁盘已满。",
		},
		Cost: Text{
			"No claim is accepted in any sale. Buyers are asked to try again, and lose nothing.",
			"所有活动都不接受抢购请求。买家会被提示重试，不会丢失任何东西。",
		},
		Do: Text{
			"Make room there. It goes on by itself, with the same keys.",
			"腾出空间即可，之后会自行恢复。",
		},
		judge: ifTrue(func(s *Seen) bool { return s.LedgerRefuses }),
	},
	{
		Name: "ledger_down", Urgency: Page, Section: "claims-are-refused",
		Ready: "status", Check: "ledger clock",
		Alerts: []string{"SluiceUnavailable", "SluiceOutcomeUnknown"},
		What:   Text{"The ledger does not answer this server.", "账本没有应答本服务器。"},
		Cost: Text{
			"No claim is decided here. Buyers are asked to try again, and lose nothing.",
			"本服务器无法处理抢购请求。买家会被提示重试，不会丢失任何东西。",
		},
		Do: Text{
			"Look at the ledger, Redis mostly, and at the network to it. It goes on by itself.",
			"检查账本（通常是 Redis）以及到它的网络。之后会自行恢复。",
		},
		judge: either(ifTrue(func(s *Seen) bool { return s.LedgerDown }),
			ofSales(func(s *Sale) (bool, string) { return s.Down, "" })),
	},
	{
		Name: "ledger_lost", Urgency: Page, Section: "a-fenced-sale", Alerts: []string{"SluiceFenced", "SluiceRebuilt"},
		Check: "loaded",
		What: Text{
			"This sale is being rebuilt, mostly because the ledger has lost data.",
			"这个活动正在重建，通常是因为账本丢失了数据。",
		},
		Cost: Text{
			"Nobody can buy in it until then, mostly for some seconds.",
			"重建完成前没有人能购买，通常只要几秒。",
		},
		Do: Text{
			"Wait. After a minute, look in the log for the server that the rebuild waits for.",
			"请等待。超过一分钟时，请在日志里看重建在等哪台服务器。",
		},
		judge: ofSales(func(s *Sale) (bool, string) { return s.Fence != "" && !s.Outdated && !s.Letter, s.Fence }),
	},
	{
		Name: "not_loaded", Urgency: Page, After: 5 * time.Second, Section: "which-ledger-for-whom", Check: "loaded",
		What: Text{
			"This server's ledger does not hold the sale as the database has it.",
			"本服务器的账本里没有这个活动，或与数据库不一致。",
		},
		Cost: Text{"Nobody can buy in it through this server.", "买家无法通过本服务器购买。"},
		Do: Text{
			"If the detail names another ledger, this server has the wrong --ledger; else look at its log.",
			"如果详情写着另一个账本，说明本服务器的 --ledger 不对；否则请看它的日志。",
		},
		judge: ofSales(func(s *Sale) (bool, string) { return s.Off != "" && s.Fence == "" && !s.Down, s.Off }),
	},
	{
		Name: "ledger_evicts", Urgency: Page, Section: "redis", Check: "ledger settings",
		What: Text{
			"Redis is set to throw keys away when its memory is full.",
			"Redis 的设置会在内存满时丢弃数据。",
		},
		Cost: Text{
			"None until then. Then sales stop and are rebuilt, again and again.",
			"平时没有；内存满时活动会中断并反复重建。",
		},
		Do:    Text{"Set maxmemory-policy to noeviction now.", "现在就把 maxmemory-policy 设为 noeviction。"},
		judge: each(func(s *Seen) []Named { return s.Evicts }),
	},
	{
		Name: "replicas_missing", Urgency: Page, Section: "orders-are-late-or-wrong",
		Ready: "ledger_state", Check: "replicas",
		What: Text{"Redis has too few replicas for wait_replicas.", "Redis 的副本数少于 wait_replicas。"},
		Cost: Text{
			"Claims are not confirmed: buyers do not get their orders.",
			"抢购请求得不到确认：买家拿不到订单。",
		},
		Do:    Text{"Bring the replica back. Everything goes on by itself.", "恢复副本，之后会自行恢复。"},
		judge: ifTrue(func(s *Seen) bool { return s.ReplicasMissing }),
	},
	{
		Name: "servers_differ", Urgency: Page, Section: "several-servers", Alerts: []string{"SluiceServersDiffer"},
		Ready: "differ", Check: "servers",
		What: Text{"Servers have different secrets or keys.", "服务器之间的密钥或设置不一致。"},
		Cost: Text{
			"One server refuses what the others accept: every so many buyers fail.",
			"一台服务器会拒绝其他服务器接受的请求：总有一部分买家失败。",
		},
		Do: Text{
			"Give all servers the same, and restart the one that is wrong.",
			"让所有服务器使用相同的设置，并重启错误的那台。",
		},
		judge: each(func(s *Seen) []Named { return s.Differ }),
	},
	{
		Name: "one_refuses", Urgency: Page, Section: "claims-are-refused", Alerts: []string{"SluiceOneRefuses"},
		What: Text{
			"One server refuses far more buyers than another.",
			"有一台服务器拒绝的买家远多于其他服务器。",
		},
		Cost: Text{"Those whom the load balancer sends there cannot buy.", "被负载均衡分到那台服务器的买家无法购买。"},
		Do: Text{
			"Compare its secrets and its clock with those of the others; take it out of the load balancer meanwhile.",
			"对比它与其他服务器的密钥和时钟；在此期间把它从负载均衡中摘除。",
		},
		judge: each(func(s *Seen) []Named { return s.Refusers }),
	},
	{
		Name: "everybody_refused", Urgency: Page, Section: "nothing-is-sold", Alerts: []string{"SluiceNoneCanBuy"},
		Check: "claims",
		What:  Text{"Buyers come, and every one is refused.", "买家来了，但全部被拒绝。"},
		Cost:  Text{"Nobody can buy in this sale.", "这个活动没有人能购买。"},
		Do: Text{
			"The reason says where to look: mostly the login, the page, or a secret.",
			"看拒绝的原因：多半是登录、页面或密钥的问题。",
		},
		judge: ofSales(everybodyRefused),
	},
	{
		Name: "not_ready", Urgency: Page, Section: "nothing-is-sold",
		What:  Text{"This sale opens soon and is not ready.", "活动即将开始，但还没有准备好。"},
		Cost:  Text{"As it is, buyers will not be able to buy.", "照现在的状态，开始后买家无法购买。"},
		Do:    Text{"Mend what the check of the sale names.", "按检查结果逐项修复。"},
		judge: ofSales(func(s *Sale) (bool, string) { return s.NotReady != "", s.NotReady }),
	},
	{
		Name: "store_down", Urgency: Page, Section: "orders-are-late-or-wrong", Alerts: []string{"SluiceStoreDown"},
		Ready: "store_state", Check: "store clock",
		What: Text{"The database does not answer, or is full.", "数据库没有应答，或者已满。"},
		Cost: Text{
			"Buyers go on buying, and their orders wait in the journal. Payments and cancels fail.",
			"买家可以继续购买，订单在流水中等待。付款与取消会失败。",
		},
		Do:    Text{"Bring it back. What waits is stored by itself.", "恢复数据库，等待的订单会自行入库。"},
		judge: ifTrue(func(s *Seen) bool { return s.StoreDown && !s.InStore }),
	},
	{
		Name: "journal_stuck", Urgency: Page, Section: "orders-are-late-or-wrong", Alerts: []string{"SluiceBacklog"},
		What: Text{
			"The oldest accepted claims of this sale have waited half a minute to be stored.",
			"这个活动最早的一批订单已等待入库半分钟。",
		},
		Cost: Text{"Buyers have their order, and cannot pay for it yet.", "买家已有订单，但还不能付款。"},
		Do: Text{
			"Look at the database: a lock, a full disk, a constraint.",
			"检查数据库：锁、磁盘已满或约束。",
		},
		judge: ofSales(journalStuck),
	},
	{
		Name: "dead_letters", Urgency: Page, Section: "dead-letters", Alerts: []string{"SluiceDeadLetters"},
		What: Text{"Accepted claims of this sale could not be stored.", "这个活动有已接受的抢购请求无法入库。"},
		Cost: Text{
			"These buyers have a promise and no order; their units stay taken.",
			"这些买家得到了承诺却没有订单，商品仍为他们保留。",
		},
		Do:    Text{"Read the reason, remove the cause, replay them.", "查看原因，排除后重放。"},
		judge: ofSales(func(s *Sale) (bool, string) { return s.DeadLetters > 0, number(s.DeadLetters, "letter") }),
	},
	{
		Name: "expiry_late", Urgency: Page, After: 20 * time.Second, Section: "orders-are-late-or-wrong",
		Alerts: []string{"SluiceOrdersOverdue", "SluiceReleasesLate"},
		What: Text{
			"Unpaid orders do not end, or their units do not come back.",
			"未付款的订单没有结束，或商品没有回补。",
		},
		Cost: Text{"Units that nobody pays for cannot be sold again.", "没有人付款的商品不能再次出售。"},
		Do: Text{
			"Look for a locked row in the database, and at the ledger.",
			"检查数据库中被锁定的行，以及账本。",
		},
		judge: ofSales(func(s *Sale) (bool, string) { return s.Overdue > wrongLate, s.Overdue.Round(time.Second).String() }),
	},
	{
		Name: "nobody_comes", Urgency: Warning, Section: "nothing-is-sold",
		Check: "claims",
		What: Text{
			"The sale has opened, and for a minute no claim has come to this server, nor was anything sold.",
			"活动已开始，但一分钟内没有购买请求到达本服务器，也没有卖出任何商品。",
		},
		Cost: Text{"Buyers may be stuck before they reach it.", "买家可能在到达之前就被拦住了。"},
		Do: Text{
			"Open the page as a buyer does, and look at DNS, load balancer and proxy.",
			"像买家一样打开页面，检查 DNS、负载均衡与代理。",
		},
		judge: ofSales(nobodyComes),
	},
	{
		Name: "expiry_behind", Urgency: Warning, Section: "clocks", Alerts: []string{"SluiceExpiryBehind"},
		What: Text{
			"The clock of the database has jumped ahead; orders expire by the time before it.",
			"数据库的时钟向前跳了；订单仍按之前的时间过期。",
		},
		Cost:  Text{"Units that nobody pays for come back later.", "没有人付款的商品会更晚回补。"},
		Do:    Text{"Set that clock right with NTP.", "用 NTP 校准该时钟。"},
		judge: ifTrue(func(s *Seen) bool { return s.ExpiryBehind > 0 }),
	},
	{
		Name: "clocks_apart", Urgency: Warning, Section: "clocks", Alerts: []string{"SluiceClockOff"},
		Check: "store clock",
		What: Text{
			"The clocks of this server, the ledger and the database disagree.",
			"本服务器、账本与数据库的时钟不一致。",
		},
		Cost: Text{
			"Countdowns are wrong, the sale opens at another moment, payments are judged by another time.",
			"倒计时不准，开始时间会偏移，付款期限按另一个时间判断。",
		},
		Do:    Text{"Set the wrong one right with NTP.", "用 NTP 校准错误的那个。"},
		judge: each(func(s *Seen) []Named { return s.Clocks }),
	},
	{
		Name: "risk_fails", Urgency: Warning, Section: "nothing-is-sold", Alerts: []string{"SluiceRiskFails"},
		Check: "risk service",
		What:  Text{"A risk service does not judge.", "风控服务没有给出判断。"},
		Cost: Text{
			"The sale's on_failure decides meanwhile: all get a ticket, or nobody.",
			"这段时间由活动的 on_failure 决定：全部放行，或全部拒绝。",
		},
		Do:    Text{"Look at the service. It is asked again by itself.", "检查该服务，之后会自行重试。"},
		judge: each(func(s *Seen) []Named { return s.Risk }),
	},
	{
		Name: "webhook_fails", Urgency: Warning, Section: "failing-webhooks", Alerts: []string{"SluiceWebhookGivenUp"},
		What: Text{"A webhook's receiver fails, or wants no more.", "Webhook 的接收方失败，或不再接收。"},
		Cost: Text{
			"Buyers notice nothing. The shop hears late what was sold and paid.",
			"买家不受影响。商城会晚知道订单与付款。",
		},
		Do: Text{
			"Look at the receiver. What waits is sent by itself, what was given up can be replayed.",
			"检查接收方。等待的会自行发送，放弃的可以重放。",
		},
		judge: each(func(s *Seen) []Named { return s.Webhooks }),
	},
	{
		Name: "server_silent", Urgency: Warning, After: 20 * time.Second, Section: "several-servers",
		What: Text{
			"A server that was there has said nothing for a while.",
			"一台服务器已经一段时间没有消息。",
		},
		Cost: Text{
			"None, if the load balancer has noticed. What it had accepted is stored by the others.",
			"如果负载均衡已经发现，则没有影响。它接受的抢购请求由其他服务器入库。",
		},
		Do: Text{
			"If you stopped it, nothing; else look at that machine.",
			"如果是你停的，不用处理；否则检查那台机器。",
		},
		judge: each(func(s *Seen) []Named { return s.Silent }),
	},
	{
		Name: "disk_full_soon", Urgency: Warning, Section: "machines-and-clocks",
		What: Text{"The disk of this server is nearly full.", "本服务器的磁盘快满了。"},
		Cost: Text{
			"None yet. When it is full, an embedded ledger accepts no more claims.",
			"暂时没有。磁盘满后内嵌账本不再接受抢购请求。",
		},
		Do:    Text{"Make room now.", "现在就腾出空间。"},
		judge: each(func(s *Seen) []Named { return s.Disks }),
	},
	{
		Name: "settings_risk", Urgency: Warning, Section: "redis",
		Ready: "store_risks", Check: "store settings",
		What: Text{
			"A setting of Redis or of the database can lose what buyers were promised.",
			"Redis 或数据库的某项设置可能丢失对买家的承诺。",
		},
		Cost: Text{
			"None until it crashes or its memory is full; then orders may be lost.",
			"平时没有；一旦崩溃或内存已满，订单可能丢失。",
		},
		Do:    Text{"Change the setting that is named, before the sale opens.", "在活动开始前修改所指的设置。"},
		judge: each(func(s *Seen) []Named { return s.Settings }),
	},
	{
		Name: "paused", Urgency: Note, Section: "running-a-sale",
		Check: "opening",
		What:  Text{"An admin has paused this sale.", "这个活动已被暂停。"},
		Cost:  Text{"Buyers wait until it is resumed.", "恢复之前买家只能等待。"},
		Do:    Text{"Resume it when you are ready.", "准备好后恢复即可。"},
		judge: ofSales(func(s *Sale) (bool, string) { return s.Paused, "" }),
	},
	{
		Name: "units_nearly_gone", Urgency: Note, Section: "running-a-sale",
		Check: "units",
		What:  Text{"The units of this sale are nearly gone.", "这个活动的商品快卖完了。"},
		Cost: Text{
			"Soon buyers hear that it is sold out, until units come back.",
			"不久之后买家会看到售罄，直到有商品回补。",
		},
		Do:    Text{"Nothing, or put more units on sale.", "无需处理，或增加商品。"},
		judge: ofSales(nearlyGone),
	},
}
