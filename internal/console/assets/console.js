// The console's script. Pages work without it. It gets pages again as documents, which the
// browser parses without running anything, and moves their elements: no text becomes HTML here.
const body = document.body;
const connection = document.querySelector("[data-connection]");
const typing = (el) => el && (el.matches("textarea, select, input:not([type=hidden])") || el.isContentEditable);

function get(url) {
  return new Promise((done, fail) => {
    const x = new XMLHttpRequest();
    x.open("GET", url);
    x.responseType = "document";
    x.timeout = 20000;
    x.onload = () => (x.status === 200 && x.response ? done(x.response) : fail(new Error(String(x.status))));
    x.onerror = x.ontimeout = () => fail(new Error("lost"));
    x.send();
  });
}

const lost = "The connection is lost: what you see may be old.";
const ended = "Your login has ended. Log in again in another tab; what you typed stays here.";

function setLost(text) {
  connection.textContent = text;
  connection.classList.toggle("lost", text !== "");
  for (const b of document.querySelectorAll("[data-decide] button")) b.disabled = text !== "";
}

// busy says that a person works in an element, so it is not replaced under their hands.
const busy = (el) => el.contains(document.activeElement) && typing(document.activeElement) || [...el.querySelectorAll("textarea, input[type=text], input[type=password]")].some((i) => i.value !== i.defaultValue);

// same says that a part has not changed. Keys of forms differ each time, so parts with forms say
// by data-is what they are.
const same = (a, b) => a.dataset.is === undefined ? a.isEqualNode(b) : a.dataset.is === b.dataset.is;

// update takes over from a newer page what has changed.
function update(fresh) {
  for (const part of document.querySelectorAll("[data-part]")) {
    const now = fresh.querySelector(`[data-part="${part.dataset.part}"]`);
    if (!now || same(part, now) || busy(part)) continue;
    const focused = part.contains(document.activeElement);
    part.replaceWith(document.importNode(now, true));
    if (focused) document.getElementById("main").focus();
  }
  const list = document.querySelector("[data-list]");
  const newer = fresh.querySelector("[data-list]");
  if (list && newer) {
    const had = new Map([...list.children].map((c) => [c.dataset.item, c]));
    let place = list.firstElementChild;
    for (const card of [...newer.children]) {
      const old = had.get(card.dataset.item);
      had.delete(card.dataset.item);
      if (!old) {
        list.insertBefore(document.importNode(card, true), place);
      } else {
        if (old.dataset.is !== card.dataset.is) {
          const focused = old.contains(document.activeElement);
          const next = document.importNode(card, true);
          if (old === place) place = old.nextElementSibling;
          old.replaceWith(next);
          if (focused) next.focus();
        } else if (old === place) {
          place = place.nextElementSibling;
        }
      }
    }
    for (const gone of had.values()) {
      const focused = gone.contains(document.activeElement);
      const next = gone.nextElementSibling || gone.previousElementSibling;
      gone.remove();
      if (focused) (next || document.getElementById("main")).focus();
    }
  }
  const asof = document.querySelector("[data-asof]");
  const then = fresh.querySelector("[data-asof]");
  if (asof && then) asof.replaceWith(document.importNode(then, true));
}

// again makes calls of f that come while it runs into one more call.
function again(f) {
  let runs = false, more = false;
  return async function run() {
    if (runs) return void (more = true);
    runs = true;
    try { await f(); } catch (e) {
      if (e.message === "401") setLost(ended);
    }
    runs = false;
    if (more) { more = false; run(); }
  };
}

// The inbox has few cards at first, and more when the person comes to their end.
let shows = location.href;
const atEnd = new IntersectionObserver((seen) => {
  const link = document.querySelector("[data-more]");
  if (!link || link.href === shows || !seen.some((s) => s.isIntersecting)) return;
  shows = link.href;
  refresh();
});
function watchEnd() {
  atEnd.disconnect();
  const link = document.querySelector("[data-more]");
  if (link) atEnd.observe(link);
}

const refresh = again(async () => { update(await get(shows)); watchEnd(); });
watchEnd();

// The inbox as it was loaded says what it shows, so that it is not got again for that.
const shownFirst = document.querySelector("[data-shows]");
let first = shownFirst ? "&shows=" + shownFirst.dataset.shows : "";

function follow(url) {
  const transcript = document.querySelector("[data-transcript]");
  const running = document.querySelector("[data-running]");
  const at = transcript && transcript.dataset.session ? "?from=" + transcript.dataset.next : "";
  // A page in a hidden tab does not count as open: people then get notices of new approvals.
  const seen = url === "/live?of=inbox" && document.hidden ? "&hidden=1" : "";
  const events = new EventSource(url + at + seen + first);
  first = "";
  if (url === "/live?of=inbox") {
    document.addEventListener("visibilitychange", () => {
      if (events.readyState === EventSource.CLOSED) return;
      events.close();
      follow(url);
    }, { once: true });
  }
  events.onopen = () => setLost("");
  // A browser connects again after a break, and not after an answer such as 401 or 503.
  const reopen = (why) => {
    setLost(why);
    setTimeout(() => get(shows).then(() => follow(url), (e) => reopen(e.message === "401" ? ended : lost)), 3000);
  };
  events.onerror = () => (events.readyState === EventSource.CLOSED ? reopen(lost) : setLost(lost));
  events.addEventListener("stale", () => setLost("Fairlead does not answer: what you see may be old."));
  events.addEventListener("out", () => { events.close(); reopen(ended); });
  events.addEventListener("alive", () => setLost(""));
  events.addEventListener("changed", () => { setLost(""); refresh(); });
  if (!transcript) return;
  let newest = 0;
  const bottom = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 80;
  const append = again(async () => {
    while (newest >= Number(transcript.dataset.next)) {
      const part = (await get(`/sessions/${transcript.dataset.session}/entries?from=${transcript.dataset.next}`)).querySelector("[data-transcript]");
      if (!part || part.dataset.next === transcript.dataset.next) break;
      const stay = bottom();
      for (const e of [...part.children]) {
        texts.delete(e.dataset.of);
        if (running.dataset.of && e.dataset.of === running.dataset.of) quiet();
        transcript.append(document.importNode(e, true));
      }
      transcript.dataset.next = part.dataset.next;
      if (stay) scrollTo(0, document.documentElement.scrollHeight);
    }
  });
  const quiet = () => { running.hidden = true; running.textContent = ""; delete running.dataset.of; };
  // Items of sub-agents run beside those of the session. What grew last is shown, with its agent.
  const texts = new Map();
  let soon = 0;
  const summary = () => { if (!soon) soon = setTimeout(() => { soon = 0; refresh(); }, 150); };
  events.addEventListener("entry", (e) => { newest = Number(e.lastEventId); append(); summary(); });
  events.addEventListener("state", summary);
  events.addEventListener("end", () => { events.close(); summary(); });
  events.addEventListener("resync", () => location.reload());
  events.addEventListener("delta", (e) => {
    const d = JSON.parse(e.data);
    let text = (texts.get(d.item) || "") + shown(d.text || d.delta || "");
    if (text.length > 20000) text = text.slice(-16000);
    if (texts.size > 100) texts.clear();
    texts.set(d.item, text);
    running.dataset.of = d.item;
    running.textContent = (d.agent ? shown(d.agent.name) + ": " : "") + text;
    running.hidden = false;
  });
}

// shown makes hidden characters visible, as the server does for whole texts.
const shown = (s) => s.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

if (body.dataset.live) follow(body.dataset.live);

// Time left.
setInterval(() => {
  for (const t of document.querySelectorAll("[data-left]")) {
    const s = Math.floor((Date.parse(t.dateTime) - Date.now()) / 1000);
    const m = Math.floor(s / 60), h = Math.floor(m / 60);
    t.textContent = s <= 0 ? "expired" : s < 60 ? `${s} s left` : m < 60 ? `${m} min left` : h < 48 ? `${h} h ${String(m % 60).padStart(2, "0")} min left` : `${Math.floor(h / 24)} days left`;
  }
}, 1000);

// A second click sends nothing. The server would take it for the first one, too.
document.addEventListener("submit", (e) => {
  const form = e.target;
  if (form.method !== "post") return;
  if (form.dataset.sent) return e.preventDefault();
  form.dataset.sent = "1";
  const ask = form.dataset.passkeyAdd ? newPasskey : e.submitter && e.submitter.dataset.passkey !== undefined ? signDecision : null;
  if (!ask) return;
  e.preventDefault();
  withPasskey(form, () => ask(form, e.submitter));
});

// Passkeys. The server makes the options, and verifies what comes back.
const unpacked = (s) => Uint8Array.from(atob(s.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
const packed = (b) => btoa(Array.from(new Uint8Array(b), (c) => String.fromCharCode(c)).join("")).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
const credentials = (list) => list.map((c) => ({ ...c, id: unpacked(c.id) }));

// withPasskey sends a form after the browser has asked for the passkey, or says why it has none.
async function withPasskey(form, ask) {
  const said = form.querySelector("[data-passkey-said]");
  said.hidden = true;
  try {
    if (!navigator.credentials || !window.PublicKeyCredential) throw new Error("this browser has no passkeys at this address");
    await ask();
    form.submit();
  } catch (e) {
    delete form.dataset.sent;
    said.textContent = "The browser gave no passkey: " + shown(e.name === "NotAllowedError" ? "it was refused, or nobody answered in time" : e.message);
    said.hidden = false;
  }
}

// signDecision has a passkey sign the decision of a form. The server says what that is.
async function signDecision(form, button) {
  const said = new URLSearchParams(new FormData(form));
  said.delete("passkey");
  said.set(button.name, button.value);
  const o = await new Promise((done, fail) => {
    const x = new XMLHttpRequest();
    x.open("POST", form.action.replace(/decision$/, "passkey"));
    x.responseType = "json";
    x.timeout = 20000;
    x.onload = () => (x.status === 200 && x.response ? done(x.response) : fail(new Error(x.status === 401 ? ended : "the server refuses the decision; look at the card again")));
    x.onerror = x.ontimeout = () => fail(new Error(lost));
    x.send(said);
  });
  const c = await navigator.credentials.get({ publicKey: { ...o, challenge: unpacked(o.challenge), allowCredentials: credentials(o.allowCredentials) } });
  form.elements.passkey.value = JSON.stringify({ id: c.id, client_data: packed(c.response.clientDataJSON), authenticator_data: packed(c.response.authenticatorData), signature: packed(c.response.signature) });
  const outcome = Object.assign(document.createElement("input"), { type: "hidden", name: button.name, value: button.value });
  form.append(outcome);
}

async function newPasskey(form) {
  const o = JSON.parse(form.dataset.passkeyAdd);
  const c = await navigator.credentials.create({ publicKey: { ...o, challenge: unpacked(o.challenge), user: { ...o.user, id: unpacked(o.user.id) }, excludeCredentials: credentials(o.excludeCredentials) } });
  form.elements.credential.value = JSON.stringify({
    id: c.id, rawId: packed(c.rawId), type: c.type, authenticatorAttachment: c.authenticatorAttachment, clientExtensionResults: {},
    response: { clientDataJSON: packed(c.response.clientDataJSON), attestationObject: packed(c.response.attestationObject), transports: c.response.getTransports ? c.response.getTransports() : [] },
  });
}
addEventListener("pageshow", (e) => {
  for (const f of document.forms) delete f.dataset.sent;
  if (e.persisted) location.reload();
});

// Text that is being typed outlives a reload of the tab.
for (const field of document.querySelectorAll("[data-draft]")) {
  const name = "draft " + field.dataset.draft;
  if (field.value === "") field.value = sessionStorage.getItem(name) || "";
  field.addEventListener("input", () => sessionStorage.setItem(name, field.value));
  field.form.addEventListener("submit", () => sessionStorage.removeItem(name));
}

// Keys of one letter, which can be switched off.
const help = document.querySelector("[data-keys]");
const on = document.querySelector("[data-keys-on]");
if (on) {
  on.checked = localStorage.getItem("keys") !== "off";
  on.addEventListener("change", () => localStorage.setItem("keys", on.checked ? "on" : "off"));
}
addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || typing(document.activeElement) || help.open || !on.checked && e.key !== "?") return;
  const cards = [...document.querySelectorAll("[data-item]")];
  const at = cards.findIndex((c) => c.contains(document.activeElement));
  const card = cards[at];
  const act = {
    j: () => (cards[Math.min(at + 1, cards.length - 1)] || document.body).focus(),
    k: () => (cards[Math.max(at - 1, 0)] || document.body).focus(),
    Enter: () => { if (card && document.activeElement === card) card.querySelector("h2 a").click(); },
    a: () => card && card.querySelector("[data-accept]") && card.querySelector("[data-accept]").focus(),
    d: () => card && card.querySelector("[data-decline]") && card.querySelector("[data-decline]").focus(),
    "?": () => help.showModal(),
  }[e.key];
  if (!act || e.key === "Enter" && document.activeElement !== card) return;
  e.preventDefault();
  act();
});
