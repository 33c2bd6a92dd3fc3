/**
 * A picture of each page (of two pages, unless `npm run test:long` runs it), with 20 days of usage and traffic that a failing provider disturbs:
 * `.cache/dashboard-shots/picture-NAME-WIDTH-THEME.png`. Those of the documentation are made by
 * `PICTURES=write npm test -- dashboard/pictures`, in both themes; it takes five minutes more, so that the charts have some. Read
 * them before they are committed. A font such as Inter makes them look like those of most readers.
 */
import assert from 'node:assert/strict'
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { NO_TOKENS } from '../../src/core/journal.ts'
import { processName, segmentFile } from '../../src/usage/journal/segment-files.ts'
import { post, type Started, start } from '../e2e/support/process.ts'
import { fileOf } from '../e2e/support/stage.ts'
import { answerWith, failWith } from '../support/answers.ts'
import { isLong } from '../support/lane.ts'
import { closedRecord, endedRecord, journalLines, openedRecord } from '../support/ledger-records.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { SHOTS, THEMES, withDashboard } from './support/dashboard.ts'
import { isRead } from './support/pages.ts'

const IMAGES = join(import.meta.dirname, '..', '..', 'docs', 'images')
const isWritten = process.env.PICTURES === 'write'
const isWhole = isWritten || isLong
/** ms of traffic before the pictures. */
const TRAFFIC = isWritten ? 300_000 : isWhole ? 6_000 : 2_000
const DAY = 86_400_000
const DAYS = 20

const TEXT = 'Server-sent events are one-way messages from a server, as lines of text in one long HTTP response.'
const SONNET = 'anthropic/claude-sonnet-4-5'
/** Requests of the traffic: model, name of the key, User-Agent. */
const REQUESTS = [
  ['chat-default', 'search-api', 'OpenAI/JS 6.9.0'],
  ['chat-default', 'ci', 'OpenAI/Python 2.7.1'],
  ['coding', 'dev', 'claude-cli/2.0.14 (external, cli)'],
  ['openai/gpt-5-mini', 'nightly-batch', 'OpenAI/Python 2.7.1'],
  ['chat-default', 'search-api', 'OpenAI/JS 6.9.0'],
  ['coding', 'dev', 'claude-cli/2.0.14 (external, cli)'],
  ['mistral/mistral-large-latest', 'nightly-batch', 'OpenAI/Python 2.7.1'],
] as const
/** What a day of the past consists of: provider, model, key, team, share of the requests, nano-dollars of one. */
const PAST = [
  ['openai', 'gpt-5-mini', 'search-api', 'search', 0.5, 2_100_000],
  ['anthropic', 'claude-sonnet-4-5', 'dev', 'core', 0.3, 31_000_000],
  ['groq', 'llama-3.3-70b-versatile', 'search-api', 'search', 0.15, 700_000],
  ['mistral', 'mistral-large-latest', 'nightly-batch', 'core', 0.05, 6_000_000],
] as const

type Scene = { readonly ids: ReadonlyMap<string, string>; readonly secrets: ReadonlyMap<string, string> }

/** The records of earlier days, as a process that has ended left them. */
const writePast = (data: string, { ids }: Scene): void => {
  const from = Date.now() - DAYS * DAY
  const lines: string[] = []
  for (let day = 0; day < DAYS; day++)
    for (const [provider, model, key, team, share, cost] of PAST) {
      // More with each week, and less on two days of seven.
      const count = Math.round(share * (90 + 3 * day) * (day % 7 > 4 ? 0.4 : 1))
      for (let at = 0; at < count; at++) {
        const call = lines.length + 1
        const received = from + day * DAY + Math.round((at / count) * DAY)
        const of = { key: ids.get(key) ?? null, team: ids.get(team) ?? null }
        const how = { request: `req_past${call}`, model, provider, route: null }
        const tokens = { ...NO_TOKENS, input: 1_800 + 37 * (at % 40), output: 240 + 11 * (at % 30) }
        const records = [
          openedRecord(call, { ...how, ...of, at: received + 1, charges: '' }),
          closedRecord(call, { at: received + 1_900, tokens, cost: cost + 9_000 * (at % 50) }),
          endedRecord(call, { ...how, ...of, received, at: received + 1_901, asked: model }),
        ]
        lines.push(...journalLines(records))
      }
    }
  const journal = join(data, 'journal')
  mkdirSync(journal, { recursive: true })
  // No process has this number.
  const earlier = processName({ start: from, pid: 4_194_305, worker: 0 })
  writeFileSync(join(journal, segmentFile(earlier, 1)), lines.join(''))
}

describe('pictures', { skip: skipBrowser, concurrency: false }, () => {
  const data = mkdtempSync(join(tmpdir(), 'headgate-pictures-'))
  let browser: Browser
  let upstreams: readonly Upstream[] = []
  let gateway: Started
  let scene: Scene = { ids: new Map(), secrets: new Map() }
  let isDown = false

  const startGateway = () => {
    const [openai = '', groq = '', anthropic = '', mistral = ''] = upstreams.map(({ url }) => `${url}/v1`)
    return start({
      env: { DATA_DIR: data, BODIES_SAMPLE: '1' },
      files: {
        'headgate.yaml': fileOf({
          providers: {
            openai: { kind: 'openai', baseUrl: openai, models: ['gpt-5-mini', 'gpt-5'], styles: ['chat'] },
            groq: { kind: 'groq', baseUrl: groq, models: ['llama-3.3-70b-versatile'] },
            anthropic: { kind: 'anthropic', baseUrl: anthropic, models: ['claude-sonnet-4-5'] },
            mistral: { kind: 'mistral', baseUrl: mistral, models: ['mistral-large-latest'] },
          },
          routes: {
            'chat-default': { targets: ['groq/llama-3.3-70b-versatile', 'openai/gpt-5-mini', SONNET] },
            coding: { targets: [SONNET, 'openai/gpt-5'] },
          },
          circuit: { timeout: 2_000, firstProbe: 0, resetTimeout: 60_000 },
          unknownModel: 'reject',
        }),
      },
    })
  }
  /** Calls the admin API, and fails unless it succeeds. */
  const admin = async (path: string, body: object): Promise<Record<string, string>> => {
    const { status, text } = await post(`${gateway.url}/admin/api/v1${path}`, body)
    assert.ok(status < 300, `${path}: ${text}`)
    return JSON.parse(text)
  }
  const ask = async (model: string, key: string, agent: string): Promise<void> => {
    const body = { model, stream: true, messages: [{ role: 'user', content: 'What are server-sent events?' }] }
    const headers = { authorization: `Bearer ${scene.secrets.get(key) ?? 'wrong'}`, 'user-agent': agent }
    await post(`${gateway.base}/chat/completions`, body, headers)
  }
  /** Teams, keys and budgets. */
  const createAccounts = async (): Promise<Scene> => {
    const ids = new Map<string, string>()
    const secrets = new Map<string, string>()
    for (const name of ['search', 'core']) ids.set(name, (await admin('/teams', { name })).id ?? '')
    const keys = {
      'search-api': { team: 'search', limits: { requestsPerMinute: 600 } },
      ci: { team: 'search', limits: { concurrent: 8 } },
      dev: { team: 'core', access: { models: ['coding', 'openai/*'] } },
      'nightly-batch': { team: 'core', limits: { tokensPerMinute: 1_000_000 } },
    }
    for (const [name, { team, ...rest }] of Object.entries(keys)) {
      const { id = '', secret = '' } = await admin('/keys', { name, team: ids.get(team), ...rest })
      ids.set(name, id)
      secrets.set(name, secret)
    }
    const appliesTo = (team: string) => ({ teams: [ids.get(team)] })
    await admin('/budgets', { name: 'search-month', amount: '25', period: 'month', appliesTo: appliesTo('search') })
    await admin('/budgets', {
      name: 'core-day',
      amount: '2',
      period: 'day',
      mode: 'soft',
      appliesTo: appliesTo('core'),
    })
    return { ids, secrets }
  }
  const makeTraffic = async (): Promise<void> => {
    const began = Date.now()
    const pending: Promise<void>[] = []
    for (let count = 0; Date.now() - began < TRAFFIC; count++) {
      // One provider fails for the last fifth.
      isDown = Date.now() - began > 0.8 * TRAFFIC
      const [model, key, agent] = REQUESTS[count % REQUESTS.length] ?? REQUESTS[0]
      pending.push(ask(model, key, agent))
      if (count % 40 === 20) pending.push(ask('gpt-5-mni', 'dev', 'curl/8.5.0'))
      if (count % 60 === 30) pending.push(ask('chat-default', 'none', 'curl/8.5.0'))
      await new Promise((resolve) => setTimeout(resolve, 120 + 60 * (count % 5)))
    }
    await Promise.all(pending)
  }

  before(async () => {
    const steady = (input: number, output: number, first: number, gap: number) =>
      startUpstream((request) => answerWith(request, { text: TEXT, input, output }, { first, gap }))
    upstreams = await Promise.all([
      steady(1_095, 609, 300, 40),
      startUpstream((request) =>
        isDown
          ? failWith(request, 503, { type: 'overloaded_error', message: 'The service is overloaded.' })
          : answerWith(request, { text: TEXT, input: 900, output: 120 }, { first: 30, gap: 6 }),
      ),
      steady(4_200, 310, 500, 70),
      steady(1_700, 240, 200, 30),
    ])
    gateway = await startGateway()
    scene = await createAccounts()
    await gateway.stop()
    writePast(data, scene)
    ;[browser, gateway] = await Promise.all([startBrowser(), startGateway()])
    await makeTraffic()
  })
  after(async () => {
    await Promise.all([browser?.close(), gateway?.stop()])
    await Promise.all(upstreams.map((one) => one.close()))
    rmSync(data, { recursive: true, force: true })
  })

  const fellBack = async (): Promise<string> => {
    const url = `${gateway.url}/admin/api/v1/requests?result=fell_back&limit=1`
    const [found] = JSON.parse(await (await fetch(url)).text()).data
    assert.ok(found, 'no request fell back')
    return found.id
  }
  const play = async (page: Page): Promise<void> => {
    await page.getByLabel('Prompt', { exact: true }).fill('Explain server-sent events in one sentence.')
    await page.keyboard.press('Control+Enter')
    await page.locator('.playground-column[data-state="done"]').nth(2).waitFor()
    await page
      .getByText(/\$0\.0/)
      .nth(2)
      .waitFor()
  }
  /** Name, address, what is shown on it once it is read, and what is done first. */
  type Picture = readonly [
    name: string,
    path: () => string | Promise<string>,
    shown: string,
    act?: (page: Page) => Promise<void>,
  ]
  const PICTURES: readonly Picture[] = [
    ['overview', () => '/dashboard/?from=-5m', '.overview-provider'],
    ['requests', async () => `/dashboard/requests/${await fellBack()}?from=-5m`, '.outcome'],
    ['providers', () => '/dashboard/providers/groq', '.lanes'],
    ['routes', () => '/dashboard/routes?down=groq', '.routes-targets'],
    ['usage', () => '/dashboard/usage?from=-20d', '.usage-table td'],
    ['keys', () => '/dashboard/keys', 'a[href*="/keys/key_"]'],
    ['playground', () => `/dashboard/playground?with=chat-default,${SONNET},openai/gpt-5`, '.playground-column', play],
    ['connect', () => '/dashboard/connect/claude', '.connect-code'],
    ['config', () => '/dashboard/config', '.config-name'],
  ]
  for (const [name, path, shown, act] of isWhole ? PICTURES : PICTURES.slice(0, 2))
    for (const theme of isWritten ? THEMES : THEMES.slice(0, 1))
      test(`${name} ${theme}`, () =>
        withDashboard(browser, { url: gateway.url, theme }, async ({ page, open, shot }) => {
          await open(await path())
          await page.locator(shown).first().waitFor({ state: 'attached' })
          if (!page.url().includes('/requests/')) await isRead(page, shown)
          await act?.(page)
          await page.getByText('live', { exact: true }).waitFor()
          await page.mouse.move(0, 0)
          await shot(`picture-${name}`, { always: true })
          const image = join(IMAGES, theme === 'dark' ? `${name}-dark.png` : `${name}.png`)
          if (isWritten) copyFileSync(join(SHOTS, `picture-${name}-wide-${theme}.png`), image)
        }))
})
