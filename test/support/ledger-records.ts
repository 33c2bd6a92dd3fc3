/** Journal records for tests of the ledger. */
import {
  type AttemptClosed,
  type AttemptOpened,
  NO_TOKENS,
  type RequestEnded,
} from '../../src/edge/ledger/journal-record.ts'

/** 2026-11-22, 10:00 UTC. */
export const NOON = 1_795_341_600_000

export const openedRecord = (call: number, changes: Partial<AttemptOpened> = {}): AttemptOpened => ({
  type: 'attempt_opened',
  call,
  request: `req_${call}`,
  attempt: 0,
  at: NOON + call,
  key: 'key_a',
  team: 'team_a',
  style: 'chat',
  tag: null,
  provider: 'openai',
  model: 'gpt-5-mini',
  credential: 'a1f3',
  hedge: false,
  reserved: 500,
  charges: [{ counter: 'bud_a', periodStart: NOON }],
  ...changes,
})

export const closedRecord = (call: number, changes: Partial<AttemptClosed> = {}): AttemptClosed => ({
  type: 'attempt_closed',
  call,
  attempt: 0,
  at: NOON + call + 100,
  outcome: 'ok',
  kind: null,
  status: 200,
  firstContentMs: 30,
  tokens: { ...NO_TOKENS, input: 10, output: 5 },
  usageSource: 'exact',
  cost: 70,
  priceSource: 'catalogue',
  priceVersion: 'cat:2026-11-21',
  ...changes,
})

export const endedRecord = (call: number, changes: Partial<RequestEnded> = {}): RequestEnded => ({
  type: 'request_ended',
  call,
  request: `req_${call}`,
  received: NOON + call,
  at: NOON + call + 110,
  style: 'chat',
  stream: true,
  asked: 'fast',
  route: 'fast',
  provider: 'openai',
  model: 'gpt-5-mini',
  key: 'key_a',
  team: 'team_a',
  person: null,
  endUser: null,
  tags: null,
  tag: null,
  outcome: 'answered',
  status: 200,
  code: null,
  trail: 'openai#a1f3:200',
  cache: 'off',
  firstContentMs: 31,
  overheadUs: 120,
  saved: 0,
  trace: null,
  ...changes,
})
