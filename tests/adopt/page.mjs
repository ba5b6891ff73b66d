// Opens the status page in Chromium: `node page.mjs URL DIRECTORY CHROMIUM`. Prints, as JSON, for each of phone and desktop, light
// and dark: axe violations, console errors, requests that went elsewhere, the width of the content, tables that are cut off; and
// what the keyboard does. Then, as `long`, what becomes of a phone's tables when pools and tenants have long names.
import { createRequire } from "node:module";
import puppeteer from "puppeteer-core";

const [url, directory, executablePath] = process.argv.slice(2);
const axe = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const browser = await puppeteer.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
const out = {};
for (const [device, width, height] of [["phone", 360, 740], ["desktop", 1280, 900]]) {
  for (const scheme of ["light", "dark"]) {
    const page = await browser.newPage();
    const errors = [], elsewhere = [];
    page.on("pageerror", error => errors.push(String(error)));
    page.on("console", message => message.type() === "error" && errors.push(message.text()));
    page.on("request", request => request.url().startsWith(url) || request.url().startsWith("data:") || elsewhere.push(request.url()));
    await page.setViewport({ width, height, isMobile: device === "phone", deviceScaleFactor: 1 });
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await page.goto(url, { waitUntil: "load", timeout: 60000 });
    await page.waitForSelector("section table tbody tr", { timeout: 60000 });
    await page.screenshot({ path: `${directory}/${device}-${scheme}.png`, fullPage: true });
    const content = await page.evaluate(() => ({ width: document.documentElement.scrollWidth, text: document.body.innerText }));
    const cut = await page.evaluate(cutOff);
    const keys = await keyboard(page);
    // The page forbids foreign scripts, so axe comes in past its policy.
    await page.setBypassCSP(true);
    await page.reload({ waitUntil: "load" });
    await page.waitForSelector("section table tbody tr", { timeout: 60000 });
    await page.addScriptTag({ path: axe });
    const result = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
    const violations = result.violations.map(({ id, help, nodes }) => ({ id, help, at: nodes.map(node => node.target.join(" ")) }));
    out[`${device}-${scheme}`] = { violations, errors, elsewhere, width: content.width, viewport: width, text: content.text, keys, cut };
    await page.close();
  }
}
out.long = await longNames();
await browser.close();
console.log(JSON.stringify(out));

// Reaches the button by the keyboard, stops the refreshing with it, and starts it again.
async function keyboard(page) {
  const button = () => page.evaluate(() => [document.activeElement.id, document.getElementById("hold").getAttribute("aria-pressed")]);
  const shown = () => page.evaluate(() => document.getElementById("head").textContent);
  const seen = [];
  await page.keyboard.press("Tab");
  seen.push(await button());
  await page.keyboard.press("Enter");
  seen.push(await button());
  const held = await shown();
  await new Promise(done => setTimeout(done, 3000));
  const still = held === await shown();
  await page.keyboard.press("Space");
  seen.push(await button());
  await page.waitForFunction(before => document.getElementById("head").textContent !== before, { timeout: 20000 }, held);
  return { seen, still };
}

// Labels of the tables of which a part can only be seen by scrolling sideways.
function cutOff() {
  return [...document.querySelectorAll(".scroll")].filter(node => node.scrollWidth > node.clientWidth)
    .map(node => node.getAttribute("aria-label"));
}

async function longNames() {
  const page = await browser.newPage();
  await page.setViewport({ width: 360, height: 740, isMobile: true, deviceScaleFactor: 1 });
  await page.evaluateOnNewDocument(() => {
    const real = window.fetch;
    window.fetch = async (...request) => {
      const snapshot = await (await real(...request)).json();
      const tenant = "spiffe://cluster.local/ns/a-namespace/sa/an-assistant-with-a-long-name";
      for (const pool of snapshot.pools) {
        pool.name = `${pool.name}-of-an-organisation-with-a-name-that-nobody-would-care-to-write`;
        for (const row of [...pool.flows, ...pool.returns]) row.tenant = tenant;
      }
      for (const row of snapshot.denials) [row.pool, row.tenant] = [snapshot.pools[0].name, tenant];
      return { ok: true, json: () => snapshot };
    };
  });
  await page.goto(url, { waitUntil: "load", timeout: 60000 });
  await page.waitForFunction(() => document.body.innerText.includes("spiffe://"), { timeout: 60000 });
  await page.screenshot({ path: `${directory}/phone-long.png`, fullPage: true });
  const cut = await page.evaluate(cutOff);
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  await page.close();
  return { cut, width, viewport: 360 };
}
