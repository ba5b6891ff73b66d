"use strict";
const EVERY = 2000, SVG = "http://www.w3.org/2000/svg";
const at = id => document.getElementById(id);
function h(tag, attributes, ...children) {
	const node = tag === "svg" || tag === "rect" ? document.createElementNS(SVG, tag) : document.createElement(tag);
	for (const name in attributes) node.setAttribute(name, attributes[name]);
	node.append(...children.flat().filter(child => child !== null));
	return node;
}
function patch(old, fresh) {
	if (old.nodeName !== fresh.nodeName) return old.replaceWith(fresh);
	if (old.nodeType === 3) { if (old.data !== fresh.data) old.data = fresh.data; return; }
	for (const { name, value } of fresh.attributes) if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
	const before = [...old.childNodes], after = [...fresh.childNodes];
	after.forEach((child, i) => before[i] ? patch(before[i], child) : old.append(child));
	before.slice(after.length).forEach(child => child.remove());
}
const number = n => n.toLocaleString("en");
const share = permille => (permille / 10).toFixed(1) + " %";
const span = ms => ms === null ? "\u2013" : ms < 9950 ? (ms / 1000).toFixed(1) + " s" : ms < 120000 ? Math.round(ms / 1000) + " s" : Math.round(ms / 60000) + " min";
const words = name => name.replaceAll("_", " ");
const bar = (used, mark) => h("svg", { viewBox: "0 0 1000 10", preserveAspectRatio: "none", "aria-hidden": "true" },
	h("rect", { class: "t", width: 1000, height: 10 }), h("rect", { class: "u", width: Math.min(1000, used), height: 10 }),
	mark === undefined ? null : h("rect", { class: "m", x: Math.min(992, mark), width: 8, height: 10 }));
function table(label, columns, rows) {
	const cell = (row, [, kind, of], i) => h(i ? "td" : "th", i ? { class: kind } : { class: kind, scope: "row" }, of(row));
	return h("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": label }, h("table", {},
		h("thead", {}, h("tr", {}, columns.map(([title, kind]) => h("th", { class: kind, scope: "col" }, title)))),
		h("tbody", {}, rows.map(row => h("tr", {}, columns.map((column, i) => cell(row, column, i)))))));
}
const fact = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
const who = [["Class", "s", row => row.class], ["Tenant", "s", row => row.tenant]];
function pool(p) {
	const used = l => l.at_once - Math.min(l.at_once, l.remaining);
	return h("section", { "aria-label": "Pool " + p.name }, h("h2", {}, p.name),
		p.readable ? null : h("p", { class: "note bad" }, "The ledger of this pool cannot be read. Calls pass and are charged later."),
		p.paused_ms === null ? null : h("p", { class: "note" }, "Paused by the provider for another " + span(p.paused_ms) + "."),
		p.scale_permille < 1000 ? h("p", { class: "note" }, "Running at " + share(p.scale_permille) + " of the limits, after refusals by the provider.") : null,
		h("dl", {}, fact("In flight", number(p.in_flight)), fact("Parked", number(p.parked)), fact("Booked", number(p.booked)),
			fact("Fairness", p.flows.length > 1 ? (p.fairness_permille / 1000).toFixed(3) : "\u2013"), fact("Mean duration", span(p.mean_duration_ms))),
		h("h3", {}, "Limits"),
		table("Limits of " + p.name, [
			["Resource", "", l => words(l.resource)], ["In use", "b", l => bar(used(l) * 1000 / l.at_once)],
			["Left now", "n", l => number(l.remaining)], ["At once", "n w", l => number(l.at_once)], ["Limit", "n", l => number(l.limit)], ["Whole in", "n w", l => span(l.reset_ms)]], p.limits),
		h("h3", {}, "Shares of those that wait"),
		p.flows.length ? table("Shares in " + p.name, [...who, ["Waiting", "n", f => number(f.waiting)],
			["Entitled", "n", f => share(f.entitled_permille)], ["Received", "n", f => share(f.received_permille)],
			["Compared", "b w", f => bar(f.received_permille, f.entitled_permille)]], p.flows) : h("p", { class: "soft" }, "Nothing waits."),
		p.returns.length ? h("details", p.returns.length > 10 ? {} : { open: "" },
			h("summary", {}, "Next returns: " + p.returns.length + (p.booked > p.returns.length ? " of " + number(p.booked) : "")),
			table("Next returns to " + p.name, [...who, ["Due in", "n", r => span(r.in_ms)]], p.returns)) : null);
}
function refusals(list, shadow) {
	return h("section", { "aria-label": "Recent refusals" }, h("h2", {}, "Recent refusals"),
		h("p", { class: "soft" }, (shadow ? "Shadow mode: none of them was carried out. " : "") + "Of the Envoy worker that answered; the others keep their own."),
		list.length ? table("Table of recent refusals", [["Pool", "s", d => d.pool], ...who, ["Reason", "", d => words(d.reason)],
			["Told", "n", d => d.told_ms === null ? "never" : span(d.told_ms)], ["Ago", "n", d => span(d.ago_ms)]], list) : h("p", {}, "None."));
}
function health(s) {
	const list = Object.entries(s.anomalies);
	return h("section", { "aria-label": "Health of the gate" }, h("h2", {}, "Health of the gate"),
		s.owed ? h("p", { class: "note" }, number(s.owed) + " ledger writes wait to be tried again.") : null,
		list.length ? table("Anomalies since Envoy started", [["Anomaly", "", a => words(a[0])], ["Count", "n", a => number(a[1])]], list)
			: h("p", {}, "No anomalies since Envoy started."));
}
let held = false, news = "", timer = 0;
function tell(text) { if (text !== news) at("news").textContent = news = text; }
function draw(s) {
	at("head").textContent = s.mode + " \u00b7 version " + s.version + " \u00b7 " + new Date(s.at_ms).toLocaleTimeString();
	patch(at("main"), h("main", { id: "main" }, s.pools.map(pool), refusals(s.denials, s.mode === "shadow"), health(s)));
	const paused = s.pools.filter(p => p.paused_ms !== null).map(p => p.name);
	tell(paused.length ? "Paused: " + paused.join(", ") : "");
}
async function refresh() {
	clearTimeout(timer);
	if (held || document.hidden) return;
	try {
		const answer = await fetch(location.pathname, { headers: { accept: "application/json" }, cache: "no-store", signal: AbortSignal.timeout(5000) });
		if (!answer.ok) throw answer.status;
		draw(await answer.json());
	} catch (error) { tell("No answer from Envoy; trying again. What is shown is old."); }
	timer = setTimeout(refresh, EVERY);
}
at("hold").onclick = () => {
	held = !held;
	at("hold").setAttribute("aria-pressed", held);
	refresh();
};
document.onvisibilitychange = refresh;
refresh();
