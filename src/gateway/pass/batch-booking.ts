/** The row of a batch in the ledger: an attempt for each model, charged to the client that has made the batch. */
import type { Client } from '../../core/accounts.ts'
import type { Usage } from '../../core/chat.ts'
import type { IncomingRequest } from '../../core/http-exchange.ts'
import type { PassBatch } from '../../core/pass-batches.ts'
import { PASS } from '../../core/pass-through.ts'
import type { Instance } from '../../core/provider.ts'
import type { Plan } from '../../core/target.ts'
import { protocols } from '../../protocols/index.ts'
import type { AttemptSource } from '../accounts/open-attempt.ts'
import { Recorder } from '../call/recorder.ts'
import type { ModelCallDeps } from '../routing/planner.ts'
import type { BatchUsage } from './batch-usage.ts'
import { keysFor } from './call-provider.ts'

/** What is recorded as the model that was asked for. */
const ASKED = 'batch'
const UNKNOWN: Usage = { input: 0, output: 0, summed: null }

/**
 * Records and charges it. `booked` is called when its attempts are recorded, before they are settled: a process that ends between
 * leaves them to be charged as they were reserved. False: some of it cannot be recorded.
 */
export const bookBatch = async (
  deps: ModelCallDeps,
  { batch, client, instance, used }: { batch: PassBatch; client: Client; instance: Instance; used: BatchUsage },
  booked: () => Promise<unknown>,
): Promise<boolean> => {
  // There is no body.
  const { bodies: _, ...gateway } = deps
  const { request: id, path } = batch
  const received: IncomingRequest = {
    id,
    method: 'GET',
    path,
    query: '',
    headers: () => undefined,
    body: { text: '' },
    client,
  }
  const recorder = new Recorder(gateway, received, { protocol: protocols['openai-chat'], style: PASS })
  const { account } = recorder
  try {
    recorder.received({ model: ASKED, stream: false, members: {}, headers: received.headers })
    const all: (readonly [model: string, usage: Usage])[] = [...used.models]
    if (used.isUnknown) all.push([PASS, UNKNOWN])
    let isWhole = true
    for (const [number, [model, usage]] of all.entries()) {
      isWhole = await recordAttempt(gateway, recorder, { instance, team: batch.team, model, usage, number })
      if (!isWhole && number === 0) return false
      if (!isWhole) break
    }
    await booked()
    recorder.end('answered', 200)
    return isWhole
  } finally {
    account.close()
  }
}

type BatchAttempt = {
  readonly instance: Instance
  readonly team: string
  readonly model: string
  readonly usage: Usage
  readonly number: number
}

const recordAttempt = async (
  gateway: ModelCallDeps,
  recorder: Recorder,
  { instance, team, model, usage, number }: BatchAttempt,
): Promise<boolean> => {
  const [key] = keysFor(gateway, instance, team)
  if (!key) return false
  const { account } = recorder
  const candidate = { instance, model, because: 'a batch', weight: 1 }
  const plan: Plan = { by: 'provider', candidates: [candidate], skipped: [] }
  account.describe({
    asked: model,
    route: null,
    plan,
    endUser: null,
    input: usage.input,
    requested: usage.output,
    output: 'requested',
  })
  const target = { candidate, key }
  if (!account.owe(target)) return false
  if ((await account.attempts.record(false)) === false) {
    account.attempts.discard()
    return false
  }
  const at = gateway.world.now()
  recorder.note({ type: 'attempt', at, provider: instance.id, model, key: key.id })
  account.attempts.sent(sourceOf(usage))
  recorder.note({ type: 'committed', at, attempt: number, status: 200 })
  if (number === 0) recorder.answeredBy({ target, prepared: { dropped: [] } })
  recorder.used({ usage })
  return true
}

const sourceOf = (usage: Usage): AttemptSource => ({
  facts: { format: PASS, id: null, model: null, finishReason: null },
  usage: () => usage,
  finished: () => true,
  output: () => NO_TEXT,
  model: () => null,
})

const NO_TEXT = { length: 0, beginning: '' }
