/** Compares costs with invoices of providers and with the current prices, and corrects them by adjustments. */
import { z } from 'zod'
import { UNITS } from '../../../core/chat.ts'
import { bad, fail, good, type Outcome } from '../../../core/failure.ts'
import { isObject, type JsonObject, number, text } from '../../../core/json.ts'
import { formatDollars, type Nano, parseDollars } from '../../../core/money.ts'
import type { PricedUsage } from '../../../policy/accounts/cost.ts'
import { time } from '../../../records/entities/shown.ts'
import { parseInvoice, reconcile } from '../../../usage/reading/reconcile.ts'
import type { UsageReader } from '../../../usage/reading/usage-reader.ts'
import { RECONCILIATION, REPRICING } from '../../answers/usage.ts'
import { storeAdjustment } from '../adjusting.ts'
import { noteAudit } from '../control.ts'
import type { AdminDeps } from '../deps.ts'
import { type AdminCall, row } from '../row.ts'
import { invalid } from '../validation.ts'

const DAY = 86_400_000
/** Adjustments that one request writes, and those that are read to find what was written before. */
const MOST = { adjustments: 1_000, read: 10_000 }
/** Attempts that one request prices again. */
const MOST_ATTEMPTS = 200_000

/** What was written before for these reasons: amounts by the text of the reason and the key. */
const writtenBefore = async (usage: UsageReader, reason: string): Promise<Outcome<ReadonlyMap<string, Nano>>> => {
  const query = { from: 0, to: Number.MAX_SAFE_INTEGER, budget: null, after: null }
  const found = await usage.adjustments({ ...query, reason, limit: MOST.read })
  if (!found.ok) return found
  if (found.value.has_more)
    return bad(fail('record_conflict', `More than ${MOST.read} adjustments begin with "${reason}". Use the export.`))
  const written = new Map<string, Nano>()
  for (const entry of found.value.data) {
    const amount = parseDollars(entry.amount, 'any')
    // An adjustment of a budget may have any reason.
    if (!amount.ok || entry.budget !== null) continue
    const name = `${entry.reason} ${entry.key ?? ''}`
    written.set(name, (written.get(name) ?? 0) + amount.value)
  }
  return good(written)
}

const nanoOf = (amount: string): Nano => {
  const parsed = parseDollars(amount, 'any')
  return parsed.ok ? parsed.value : 0
}

/** Writes the adjustments; a repetition of the request writes those that are missing. Returns their number. */
const writeAll = async (
  deps: AdminDeps,
  call: AdminCall<unknown, unknown, unknown>,
  corrections: readonly { readonly reason: string; readonly key: string | null; readonly amount: Nano }[],
): Promise<Outcome<number>> => {
  if (corrections.length > MOST.adjustments)
    return bad(
      fail(
        'invalid_value',
        `These are ${corrections.length} adjustments (limit ${MOST.adjustments}). Use a part of them.`,
      ),
    )
  for (const correction of corrections) {
    const stored = await storeAdjustment(deps, call, correction, `${correction.reason} ${correction.key ?? ''}`)
    if (!stored.ok) return stored
  }
  return good(corrections.length)
}

// ── Invoices ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const reconcileRow = row({
  method: 'POST',
  path: '/usage/reconcile',
  summary: 'Compare the ledger with the invoice of a provider',
  about:
    'The invoice is CSV with the columns day, model and amount (dollars), a cost and usage export of AWS as CSV (what the tokens of Bedrock cost), or the JSON of the cost API of OpenAI, Anthropic or OpenRouter. `apply` writes each difference as an adjustment; a repetition writes none.',
  role: 'admin',
  scope: 'all',
  body: z.strictObject({
    provider: z.string().min(1).max(200).describe('The ID of the provider'),
    invoice: z.string().min(1).describe('The text of the file'),
    apply: z.boolean().default(false),
  }),
  answer: RECONCILIATION,
  example: {
    body: { provider: 'openai', invoice: 'day,model,amount\n2026-11-22,gpt-5-mini,1.84\n', apply: false },
    answer: {
      object: 'list',
      provider: 'openai',
      data: [
        {
          day: '2026-11-22',
          model: 'gpt-5-mini',
          ours: '1.820000000',
          adjusted: '0.000000000',
          theirs: '1.840000000',
          difference: '0.020000000',
          estimated: 3,
          unpriced: 0,
        },
      ],
      total: { ours: '1.820000000', adjusted: '0.000000000', theirs: '1.840000000', difference: '0.020000000' },
      applied: 0,
      has_more: false,
      next: null,
    },
  },
  async handle(deps, call) {
    const { provider, invoice, apply } = call.body
    const lines = await compare(deps, provider, invoice)
    if (!lines.ok) return lines
    const different = lines.value.filter(({ difference }) => difference !== 0)
    const applied = apply
      ? await writeAll(
          deps,
          call,
          different.map(({ reason, difference }) => ({ reason, key: null, amount: difference })),
        )
      : good(0)
    if (!applied.ok) return applied
    const sum = (of: 'ours' | 'adjusted' | 'theirs' | 'difference') =>
      formatDollars(lines.value.reduce((total, line) => total + line[of], 0))
    const total = { ours: sum('ours'), adjusted: sum('adjusted'), theirs: sum('theirs'), difference: sum('difference') }
    if (applied.value > 0)
      await noteAudit(deps.control, call, {
        action: 'usage.reconcile',
        object: provider,
        details: { applied: applied.value, difference: total.difference },
      })
    const data = lines.value.map(({ reason: _reason, ...line }) => ({
      ...line,
      ours: formatDollars(line.ours),
      adjusted: formatDollars(line.adjusted),
      theirs: formatDollars(line.theirs),
      difference: formatDollars(line.difference),
    }))
    return good({
      body: {
        object: 'list' as const,
        provider,
        data,
        total,
        applied: applied.value,
        has_more: false as const,
        next: null,
      },
    })
  },
})

/** The lines of an invoice beside what the ledger has. */
const compare = async ({ usage, gateway }: AdminDeps, provider: string, invoice: string) => {
  const theirs = parseInvoice(invoice)
  if (!theirs.ok) return bad(invalid([{ path: 'invoice', message: theirs.failure.message }]))
  const days = theirs.value.map(({ day }) => Date.parse(`${day}T00:00:00Z`))
  if (days.length === 0) return bad(invalid([{ path: 'invoice', message: 'The invoice has no lines.' }]))
  const ours = await usage.wholeUsage({
    from: Math.min(...days),
    to: Math.max(...days) + DAY,
    by: ['model'],
    bucket: 'day',
    tz: 'UTC',
    filter: { provider: [provider] },
    limit: MOST.read,
    after: null,
  })
  if (!ours.ok) return ours
  if (ours.value.has_more)
    return bad(fail('invalid_value', 'The invoice has too many days and models. Send a part of it.'))
  const isConfigured = gateway.config().instances.some(({ id }) => id === provider)
  if (!isConfigured && ours.value.data.length === 0)
    return bad(fail('not_found', `No provider has the ID ${provider}, and none had it on these days.`))
  const lines = reconcile(theirs.value, ours.value.data)
  if (!lines.ok) return lines
  const written = await writtenBefore(usage, `invoice ${provider} `)
  if (!written.ok) return written
  return good(
    lines.value.map((line) => {
      const reason = `invoice ${provider} ${line.day}${line.model === null ? '' : ` ${line.model}`}`
      const adjusted = written.value.get(`${reason} `) ?? 0
      const [own, other] = [nanoOf(line.ours), nanoOf(line.theirs)]
      return { ...line, reason, ours: own, adjusted, theirs: other, difference: other - own - adjusted }
    }),
  )
}

// ── Prices ───────────────────────────────────────────────────────────────────────────────────────────────────────────

type PricedLine = {
  readonly day: string
  readonly key: string | null
  readonly provider: string
  readonly model: string
  attempts: number
  cost: Nano
  now: Nano
}

const reasonOf = ({ day, provider, model }: PricedLine): string => `prices ${day} ${provider}/${model}`

const repriceRow = row({
  method: 'POST',
  path: '/usage/reprice',
  summary: 'Compare costs in the ledger with the current prices',
  about:
    'Attempts keep their cost. Without `dry_run` the differences are written as adjustments of the keys, by day and model; budgets do not change. Factors of service tiers and prices of tool calls and images are not applied, because attempts in the ledger do not have them.',
  role: 'admin',
  scope: 'all',
  body: z.strictObject({
    from: time,
    to: time.optional().describe('Default: now'),
    provider: z.string().min(1).max(200).optional(),
    model: z.string().min(1).max(200).optional(),
    dry_run: z.boolean().default(true),
  }),
  answer: REPRICING,
  example: {
    body: { from: '2026-11-01T00:00:00Z', dry_run: true },
    answer: {
      object: 'list',
      from: '2026-11-01T00:00:00.000Z',
      to: '2026-11-23T10:00:00.000Z',
      data: [],
      total: { cost: '0.000000000', adjusted: '0.000000000', now: '0.000000000', difference: '0.000000000' },
      skipped: 0,
      applied: 0,
      has_more: false,
      next: null,
    },
  },
  async handle(deps, call) {
    const { gateway, usage, control } = deps
    const { from, to, provider, model, dry_run: isDry } = call.body
    const range = { from: Date.parse(from), to: to === undefined ? gateway.world.date() : Date.parse(to) }
    if (range.from >= range.to) return bad(invalid([{ path: 'from', message: 'It must be before `to`.' }]))
    const found = await pricedLines(deps, range, {
      ...(provider !== undefined && { provider: [provider] }),
      ...(model !== undefined && { model: [model] }),
    })
    if (!found.ok) return found
    const written = await writtenBefore(usage, 'prices ')
    if (!written.ok) return written
    const lines = found.value.lines
      .map((line) => {
        const adjusted = written.value.get(`${reasonOf(line)} ${line.key ?? ''}`) ?? 0
        return { ...line, adjusted, difference: line.now - line.cost - adjusted }
      })
      .filter(({ difference, adjusted }) => difference !== 0 || adjusted !== 0)
    const corrections = lines
      .filter(({ difference }) => difference !== 0)
      .map((line) => ({ reason: reasonOf(line), key: line.key, amount: line.difference }))
    const applied = isDry ? good(0) : await writeAll(deps, call, corrections)
    if (!applied.ok) return applied
    const sum = (of: 'cost' | 'adjusted' | 'now' | 'difference') =>
      formatDollars(lines.reduce((total, line) => total + line[of], 0))
    const total = { cost: sum('cost'), adjusted: sum('adjusted'), now: sum('now'), difference: sum('difference') }
    if (applied.value > 0)
      await noteAudit(control, call, {
        action: 'usage.reprice',
        object: provider ?? 'all',
        details: { from, to: to ?? null, model: model ?? null, applied: applied.value, difference: total.difference },
      })
    const data = lines.map((line) => ({
      ...line,
      cost: formatDollars(line.cost),
      adjusted: formatDollars(line.adjusted),
      now: formatDollars(line.now),
      difference: formatDollars(line.difference),
    }))
    const iso = { from: new Date(range.from).toISOString(), to: new Date(range.to).toISOString() }
    const { skipped } = found.value
    return good({
      body: {
        object: 'list' as const,
        ...iso,
        data,
        total,
        skipped,
        applied: applied.value,
        has_more: false as const,
        next: null,
      },
    })
  },
})

/** Prices the attempts of a range again, in parts of 500, and sums them by day, key and model. */
const pricedLines = async (
  { usage, gateway }: AdminDeps,
  range: { readonly from: number; readonly to: number },
  filter: { readonly provider?: readonly string[]; readonly model?: readonly string[] },
): Promise<Outcome<{ readonly lines: readonly PricedLine[]; readonly skipped: number }>> => {
  const source = usage.export({ ...range, level: 'attempt', format: 'jsonl', filter })
  const lines = new Map<string, PricedLine>()
  const instances = new Map(gateway.config().instances.map((instance) => [instance.id, instance]))
  const prices = gateway.prices()
  let [read, skipped] = [0, 0]
  const add = (row: JsonObject): boolean => {
    const [id = '', model = '', started = ''] = [text(row.provider), text(row.model), text(row.started_at)]
    const instance = instances.get(id)
    const usageOf = pricedUsage(row)
    if (!instance || !usageOf || row.price_source === 'upstream') return false
    const { nano } = prices.costOfAttempt({ instance, model, usage: usageOf, at: Date.parse(started) })
    if (nano === null) return false
    const key = text(row.key) ?? null
    const day = started.slice(0, 10)
    const name = JSON.stringify([day, key, id, model])
    const line = lines.get(name) ?? { day, key, provider: id, model, attempts: 0, cost: 0, now: 0 }
    lines.set(name, line)
    line.attempts++
    line.cost += nanoOf(text(row.cost) ?? '0')
    line.now += nano
    return true
  }
  for (;;) {
    const part = await source.read()
    if (!part.ok) return part
    if (part.value === null) break
    for (const written of part.value.split('\n')) {
      if (written === '') continue
      if (++read > MOST_ATTEMPTS)
        return bad(fail('invalid_value', `The range has more than ${MOST_ATTEMPTS} attempts. Narrow it (from, to).`))
      const row: unknown = JSON.parse(written)
      if (!isObject(row) || !add(row)) skipped++
    }
  }
  return good({ lines: [...lines.values()], skipped })
}

/** The counts of an attempt; null: it has none, because it did not reach the upstream or its process ended. */
const pricedUsage = (row: JsonObject): PricedUsage | null => {
  const [input, output] = [number(row.input), number(row.output)]
  if (input === undefined || output === undefined) return null
  return {
    input,
    output,
    cacheRead: number(row.cache_read) ?? 0,
    cacheWrite: number(row.cache_write) ?? 0,
    cacheWrite1h: number(row.cache_write_1h) ?? 0,
    reasoning: number(row.reasoning) ?? 0,
    audioInput: number(row.audio_input) ?? 0,
    audioOutput: number(row.audio_output) ?? 0,
    ...pricedUnits(row),
  }
}

const pricedUnits = (row: JsonObject): Pick<PricedUsage, 'units'> => {
  const [name, ...kind] = (text(row.unit) ?? '').split('/')
  const unit = UNITS.find((known) => known === name)
  return unit === undefined ? {} : { units: { unit, kind, count: number(row.units) ?? null } }
}

export const correctionRows = [reconcileRow, repriceRow]
