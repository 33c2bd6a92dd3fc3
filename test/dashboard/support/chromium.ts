/** Chromium of the system, driven by playwright-core. `CHROMIUM` names another program. */
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { after } from 'node:test'
import { type Browser, chromium } from 'playwright-core'

const find = (): string | null => {
  const { CHROMIUM } = process.env
  if (CHROMIUM !== undefined) return existsSync(CHROMIUM) ? CHROMIUM : null
  for (const name of ['chromium', 'chromium-browser', 'google-chrome'])
    try {
      return execFileSync('sh', ['-c', `command -v ${name}`], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      }).trim()
    } catch {
      // Not installed under this name.
    }
  return null
}

const executablePath = find()

/** For the `skip` of a test: false where a Chromium is installed, and in CI, where a missing one must fail. */
export const skipBrowser =
  executablePath !== null || process.env.HEADGATE_CI === '1' ? false : 'no Chromium here; CHROMIUM names one'

const started = new Set<Promise<Browser>>()
// A running browser keeps the process of its test alive, also if something else that the test needs did not start.
after(async () => {
  const browsers = await Promise.allSettled(started)
  await Promise.all(browsers.map((browser) => browser.status === 'fulfilled' && browser.value.close()))
})

/** Starts the browser. It makes no requests of its own. It is closed at the end of the file at the latest. */
export const startBrowser = (): Promise<Browser> => {
  if (executablePath === null) throw new Error('No Chromium was found. Install the package chromium, or set CHROMIUM.')
  const browser = chromium.launch({
    executablePath,
    args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-dev-shm-usage'],
    timeout: 60_000,
  })
  started.add(browser)
  return browser
}
