/**
 * Books batches that clients have made by passed calls: each once, when an answer to a client or a reading of the gateway's own first
 * shows that it has ended.
 */
import type { Client } from '../../core/accounts.ts'
import { textOf } from '../../core/encoded-text.ts'
import { type Failure, good, type Outcome } from '../../core/failure.ts'
import { isObject, type JsonObject, readJson } from '../../core/json.ts'
import type { BatchCall, BatchWatch, ClaimedBatch, PassBatch, PassBatches } from '../../core/pass-batches.ts'
import type { PassOwner } from '../../core/pass-objects.ts'
import type { Instance } from '../../core/provider.ts'
import { batchesIn, mayHaveBatches, type SeenBatch } from '../../policy/pass/batches.ts'
import { idsInPath } from '../../policy/pass/objects.ts'
import type { ModelCallDeps } from '../routing/planner.ts'
import { bookBatch } from './batch-booking.ts'
import { BatchUsage } from './batch-usage.ts'
import { collector, lines, readProvider } from './read-provider.ts'

export type BatchBooksDeps = {
  readonly gateway: () => ModelCallDeps
  readonly store: PassBatches
  /** The client of an owner, also of a key that no longer exists. */
  readonly creator: (owner: PassOwner) => Client
  /** Whether the ledger has a request. */
  readonly isRecorded: (request: string) => Promise<Outcome<boolean>>
  readonly report: (message: string) => void
}

/** ms after which the cost of a batch that cannot be read counts as unknown: providers end batches within a day. */
const MOST_AGE = 7 * 86_400_000
/** Share of the time of a claim in which its results are read. */
const READING = 0.7

export class BatchBooks implements BatchWatch {
  readonly #deps: BatchBooksDeps

  constructor(deps: BatchBooksDeps) {
    this.#deps = deps
  }

  async observe({ instance, method, path, client, request }: BatchCall, answer: JsonObject): Promise<Failure | null> {
    for (const seen of batchesIn(answer, path)) {
      if (method === 'POST' && idsInPath(method, path).length === 0) {
        const failure = await this.#deps.store.add({
          instance: instance.id,
          id: seen.id,
          team: client.team.id,
          key: client.id,
          path: seen.path,
          request: `${request}-batch`,
          made: this.#deps.gateway().world.date(),
        })
        if (failure) return failure
      }
      if (seen.ended) void this.#book(instance, seen)
    }
    return null
  }

  async settleDeleted({ instance, method, path, client }: BatchCall): Promise<void> {
    const [id] = mayHaveBatches(path) ? idsInPath(method, path) : []
    if (id !== undefined) await this.#read(instance, { id, path, team: client.team.id })
  }

  /** Reads those that were not read for a while. */
  async poll(): Promise<void> {
    const due = await this.#deps.store.due()
    if (!due.ok) return this.#deps.report(`Batches cannot be read: ${due.failure.message}`)
    for (const batch of due.value) {
      const instance = this.#deps
        .gateway()
        .config()
        .instances.find(({ id }) => id === batch.instance)
      if (!instance) continue
      const failure = await this.#read(instance, batch)
      const age = this.#deps.gateway().world.date() - batch.made
      if (failure?.kind === 'not_found' || age > MOST_AGE) await this.#book(instance, { ...batch, ended: NOT_KNOWN })
    }
  }

  /** Reads a batch at its provider, and books it if it has ended. */
  async #read(
    instance: Instance,
    { id, path, team }: Pick<PassBatch, 'id' | 'path' | 'team'>,
  ): Promise<Failure | null> {
    const { settings } = this.#deps.gateway().config()
    const whole = collector()
    const read = { instance, team, path, query: '', within: settings.batches.interval * READING }
    const failure = await readProvider(this.#deps.gateway(), read, whole.push)
    if (failure) return failure
    const answer = readJson(textOf(whole.bytes()))
    const seen = isObject(answer) ? batchesIn(answer, path).find((one) => one.id === id) : undefined
    if (seen?.ended) await this.#book(instance, seen)
    return null
  }

  async #book(instance: Instance, seen: SeenBatch): Promise<void> {
    const { store, report } = this.#deps
    try {
      const claimed = await store.claim(instance.id, seen.id)
      if (!claimed.ok || !claimed.value || !seen.ended) return
      const problem = await this.#bookClaimed(instance, claimed.value, seen.ended)
      if (problem === null) return
      report(`The batch ${seen.id} of ${instance.id} cannot be booked yet: ${problem}`)
      await store.postpone(instance.id, seen.id)
    } catch (error) {
      report(`The batch ${seen.id} of ${instance.id} cannot be booked yet: ${error}`)
    }
  }

  /** Returns why it cannot be booked now, or null. */
  async #bookClaimed(
    instance: Instance,
    batch: ClaimedBatch,
    ended: NonNullable<SeenBatch['ended']>,
  ): Promise<string | null> {
    const { store, creator, isRecorded, gateway } = this.#deps
    const booked = () => store.booked(instance.id, batch.id)
    const earlier = batch.isAgain ? await isRecorded(batch.request) : good(false)
    if (!earlier.ok) return earlier.failure.message
    if (earlier.value) return (await booked())?.message ?? null
    const used = await this.#usageOf(instance, batch, ended)
    if (typeof used === 'string') return used
    // None of its requests has been answered.
    if (used.models.size === 0 && !used.isUnknown) return (await booked())?.message ?? null
    const client = creator(batch)
    const isBooked = await bookBatch(gateway(), { batch, client, instance, used }, booked)
    return isBooked ? null : 'its usage cannot be recorded'
  }

  /** A text: why it cannot be read now. */
  async #usageOf(
    instance: Instance,
    batch: PassBatch,
    { results, usage, model }: NonNullable<SeenBatch['ended']>,
  ): Promise<BatchUsage | string> {
    const { gateway } = this.#deps
    const { world, config } = gateway()
    const used = new BatchUsage(gateway(), instance, model)
    if (!results) used.isUnknown = true
    else if (results.length === 0 && usage) used.addTotal(usage)
    for (const one of results ?? []) {
      if (!('path' in one)) {
        for (const result of one) used.addResult(result)
        continue
      }
      const cut = lines((line) => used.addLine(line))
      const within = config().settings.batches.interval * READING
      const failure = await readProvider(gateway(), { instance, team: batch.team, ...one, within }, cut.push)
      if (!failure) cut.end()
      else if (usage) {
        const total = new BatchUsage(gateway(), instance, model)
        total.addTotal(usage)
        return total
      } else if (failure.kind === 'not_found' || world.date() - batch.made > MOST_AGE) used.isUnknown = true
      else return failure.message
    }
    return used
  }
}

const NOT_KNOWN = { results: null, usage: null, model: null }
