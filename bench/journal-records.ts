/** The journal records of a request with one attempt, as the benches of the ledger write them. */
import {
  type AttemptClosed,
  type AttemptOpened,
  type BudgetCharge,
  chargeList,
  type RequestEnded,
} from '../src/core/journal.ts'
import { closedRecord, endedRecord, openedRecord } from '../test/support/ledger-records.ts'

/** `at`: when the attempt begins, in ms since 1970. Its key is one of `keys`, in one of ten teams. */
export type BenchCall = {
  readonly call: number
  readonly request: string
  readonly at: number
  readonly keys: number
  readonly charges: (key: string) => readonly BudgetCharge[]
}

export const recordsOf = ({
  call,
  request,
  at,
  keys,
  charges,
}: BenchCall): readonly [AttemptOpened, AttemptClosed, RequestEnded] => {
  const key = `key_kdvbwqhzm${String(call % keys).padStart(3, '0')}`
  const team = `team_abcdefgh${String((call % keys) % 10).padStart(2, '0')}`
  const shared = { request, key, team, clientRequestId: null, route: null }
  const model = 'gpt-5-mini-2025-08-07'
  return [
    openedRecord(call, { ...shared, at, charges: chargeList(charges(key)), model, reserved: 4_500_000 }),
    closedRecord(call, { at: at + 900, cost: 1_234_500, firstContentMs: 310 }),
    endedRecord(call, {
      ...shared,
      received: at,
      at: at + 901,
      asked: 'gpt-5-mini',
      model,
      decision:
        '{"by":"model","plan":["openai/gpt-5-mini-2025-08-07"],"more":0,"skipped":[],"dropped":[],"limit":null}',
    }),
  ]
}
