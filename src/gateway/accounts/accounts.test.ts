import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { memoryJournal, testAccounts, testBudget, testClient } from '../../../test/support/accounts.ts'
import { CapturedReply, chatAnswer, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import type { Budget, Client, PriceOverride, PriceRule } from '../../core/accounts.ts'
import type { ClientProtocolName } from '../../core/chat.ts'
import type { Catalogue } from '../../core/config.ts'
import { fail } from '../../core/failure.ts'
import type { JournalRecord, JournalResult } from '../../core/journal.ts'
import { formatDollars } from '../../core/money.ts'
import { summaryOf } from '../../core/trace-summary.ts'
import { budgetScope } from '../../policy/accounts/budget-scope.ts'
import { priceBook } from '../../policy/accounts/price-book.ts'
import { protocols } from '../../protocols/index.ts'
import { serveChat } from '../chat/serve-chat.ts'
import type { AccountRules } from './accounts-state.ts'

const [A, B] = [instance('a'), instance('b')]
/** In nano-dollars per token. */
const PRICES: Readonly<Record<string, { readonly input: number; readonly output: number }>> = {
  a: { input: 10, output: 40 },
  b: { input: 1, output: 4 },
}
const PRICED: Catalogue = (provider) => {
  const prices = PRICES[provider]
  return prices && { prices }
}
/** The cost of a whole answer of `a` and of `b`: 3 tokens of input, 2 of output. */
const COST = { a: 110, b: 11 }

const question = (more: object = {}) => ({ model: 'm', messages: [{ role: 'user', content: 'hello' }], ...more })
const STREAM = question({ stream: true })
/** Bytes of the body. */
const INPUT = Math.ceil(JSON.stringify(question()).length / 3)
const RESERVED = { a: INPUT * 10 + 1_024 * 40, b: INPUT + 1_024 * 4 }

const whole = (asked: ScriptedCall) => respondWith.json(asked, 200, chatAnswer.whole('Hello'))
const answers = (asked: ScriptedCall) =>
  asked.headers.accept === 'text/event-stream'
    ? respondWith.stream(asked, chatAnswer.stream('Hel', 'lo'))
    : whole(asked)
const host = ({ url }: ScriptedCall) => new URL(url).host.split('.')[0] ?? ''

const AGENT = 'claude-cli/2.1.0 (secret)'

type Given = {
  readonly budgets?: readonly Budget[]
  readonly client?: Client
  readonly settings?: object
  readonly rules?: Partial<AccountRules>
  readonly catalogue?: Catalogue
  /** What an operator has set for a provider. */
  readonly prices?: Readonly<Record<string, PriceOverride>>
  readonly instances?: Parameters<typeof gatewayHarness>[0]
  /** False: there is no journal. */
  readonly journal?: false | JournalResult
  /** ms until a record is written. */
  readonly journalMs?: number
}

const ruleOf = ([provider, prices]: readonly [string, PriceOverride]): PriceRule => ({
  ...{ id: `prc_${provider}`, provider, model: '*', effectiveFrom: 0, prices },
  managed: 'file',
})

const given = (script: (asked: ScriptedCall) => void = answers, input: Given = {}) => {
  const { client = testClient(), settings = {}, instances = [A], catalogue = PRICED } = input
  const harness = gatewayHarness(instances, script, settings as object & Record<string, unknown>, catalogue)
  const { world } = harness
  const { journal, records } = memoryJournal(
    { later: (_ms, run) => world.later(input.journalMs ?? 0, run) },
    input.journal || 'accepted',
  )
  let scopes = (input.budgets ?? []).map(budgetScope)
  const prices = priceBook(catalogue, Object.entries(input.prices ?? {}).map(ruleOf))
  const accounts = testAccounts(world, {
    budgets: () => scopes,
    prices: () => prices,
    journal: () => (input.journal === false ? null : journal),
    rules: () => ({
      maxOutput: 32_768,
      unknownPrice: 'dearest',
      whenUnknown: 'serve',
      endUser: false,
      guessSessions: false,
      ...input.rules,
    }),
  })
  let number = 0
  return {
    ...harness,
    accounts,
    records,
    change: (budgets: readonly Budget[]) => {
      scopes = budgets.map(budgetScope)
    },
    ask: (body: object = question(), style: ClientProtocolName = 'openai-chat', by = client, metadata?: string) => {
      const reply = new CapturedReply()
      const protocol = protocols[style]
      const received = {
        id: `req_${number++}`,
        method: 'POST',
        path: protocol.path,
        query: '',
        headers: (name: string) => ({ 'x-headgate-metadata': metadata, 'user-agent': AGENT })[name],
        body: { text: JSON.stringify(body) },
        local: true,
        client: by,
      }
      reply.done = serveChat({ ...harness.gateway, accounts }, { protocol, received, responseWriter: reply })
      return reply
    },
    /** Spent, reserved and remaining of the only counter. */
    state: () => {
      const [state] = accounts.budgetStates()
      return state && [state.spent, state.reserved, state.remaining]
    },
  }
}

const closed = (records: readonly JournalRecord[]) =>
  records.flatMap((record) => (record.type === 'attempt_closed' ? [record] : []))
const opened = (records: readonly JournalRecord[]) =>
  records.flatMap((record) => (record.type === 'attempt_opened' ? [record] : []))
const ended = (records: readonly JournalRecord[]) =>
  records.flatMap((record) => (record.type === 'request_ended' ? [record] : []))

describe('a call is recorded', () => {
  test('before it is sent, and not sent before', async () => {
    const { ask, world, records } = given()
    ask()
    await world.settle()
    assert.equal(world.calls.length, 0)
    assert.deepEqual(
      opened(records).map(({ provider, model, credential, reserved, key, style, attempt }) => [
        ...[provider, model, credential, reserved, key, style, attempt],
      ]),
      [['a', 'm', 'k1', RESERVED.a, 'key_test', 'chat', 0]],
    )
    await world.advance(0)
    assert.equal(world.calls.length, 1)
  })

  test('with the tokens and the cost of the answer, and its end', async () => {
    const { ask, world, records } = given()
    const reply = ask()
    await world.advance(1)
    assert.equal(reply.status, 200)
    assert.deepEqual(
      closed(records).map(({ outcome, tokens, usageSource, cost, priceSource, status }) => [
        ...[outcome, tokens.input, tokens.output, usageSource, cost, priceSource, status],
      ]),
      [['ok', 3, 2, 'exact', COST.a, 'catalogue', 200]],
    )
    assert.deepEqual(
      ended(records).map(({ outcome, status, provider, model, asked, stream, trail, cache }) => [
        ...[outcome, status, provider, model, asked, stream, trail, cache],
      ]),
      [['answered', 200, 'a', 'm', 'm', false, 'a#k1:200', 'off']],
    )
  })

  test('with its plan, and why attempts and the request failed', async () => {
    const { ask, world, records } = given((asked) => respondWith.error(asked, host(asked) === 'a' ? 503 : 400), {
      instances: [A, B],
    })
    const reply = ask()
    await world.advance(60_000)
    const messages = closed(records).map(({ message }) => message)
    assert.ok(messages.length >= 2 && messages.every((one) => one !== null), messages.join())
    const [{ message, decision } = assert.fail()] = ended(records)
    assert.equal(message, reply.json.error.message)
    assert.deepEqual(JSON.parse(decision ?? ''), {
      by: 'listed',
      plan: ['a/m', 'b/m'],
      more: 0,
      skipped: [],
      dropped: [],
      limit: null,
    })
  })

  test('with the budget that excluded a target', async () => {
    const { ask, world, records } = given(answers, { instances: [A, B], budgets: [testBudget(RESERVED.a - 1)] })
    ask()
    await world.advance(1)
    const [{ message, decision } = assert.fail()] = ended(records)
    assert.equal(message, null)
    assert.deepEqual(JSON.parse(decision ?? '').skipped, [{ target: 'a/m', key: 'k1', why: 'budget' }])
  })

  test('with the limit that refused the request', async () => {
    const { ask, world, records } = given(answers, { budgets: [testBudget(0)] })
    ask()
    await world.advance(1)
    const [{ message, decision } = assert.fail()] = ended(records)
    assert.match(message ?? '', /is used up/)
    assert.equal(JSON.parse(decision ?? '').limit, 'budget; id=bud_test; resets=2027-02-01')
  })

  test('with the kind of its client, without other text of the User-Agent', async () => {
    const { ask, world, records } = given()
    ask()
    await world.advance(1)
    assert.deepEqual(
      [...opened(records), ...ended(records)].map(({ client }) => client),
      ['claude-code', 'claude-code'],
    )
    assert.doesNotMatch(JSON.stringify(records), /secret/)
  })

  test('without delay if there is no journal', async () => {
    const { ask, world, records } = given(answers, { journal: false })
    ask()
    await world.settle()
    assert.equal(world.calls.length, 1)
    assert.equal(records.length, 0)
  })

  test('or refused with 503 if it cannot be recorded', async () => {
    const { ask, world, records, state } = given(answers, { journal: 'refused', budgets: [testBudget(1e9)] })
    const reply = ask()
    await world.advance(1)
    assert.equal(reply.status, 503)
    assert.equal(reply.json.error.code, 'storage_unavailable')
    assert.equal(reply.headers['x-headgate-attempts'], '0')
    assert.equal(world.calls.length, 0)
    assert.deepEqual(closed(records), [])
    assert.deepEqual(state(), [0, 0, 1e9])
  })

  test('or refused with 503 if its record may not be on the disk, and recorded as without cost', async () => {
    const { ask, world, records, state } = given(answers, { journal: 'unsynced', budgets: [testBudget(1e9)] })
    const reply = ask()
    await world.advance(1)
    assert.equal(reply.status, 503)
    assert.equal(world.calls.length, 0)
    assert.deepEqual(
      closed(records).map(({ outcome, cost }) => [outcome, cost]),
      [['abandoned', 0]],
    )
    assert.deepEqual(state(), [0, 0, 1e9])
  })

  test('as without cost if its client left before it was sent', async () => {
    const { ask, world, records, state } = given(answers, { budgets: [testBudget(1e9)] })
    const reply = ask()
    await world.settle()
    reply.disconnect()
    await world.advance(1)
    assert.equal(world.calls.length, 0)
    assert.deepEqual(
      closed(records).map(({ outcome, cost }) => [outcome, cost]),
      [['abandoned', 0]],
    )
    assert.equal(ended(records)[0]?.outcome, 'client_gone')
    assert.deepEqual(state(), [0, 0, 1e9])
  })
})

describe('an attempt is charged by its end', () => {
  const streamed = chatAnswer.role() + chatAnswer.chunk({ content: 'a'.repeat(400) })
  /** 400 letters of 0.23 tokens, in binary fractions, rounded up. */
  const OUTPUT = 93
  const INPUT_OF_STREAM = Math.ceil(JSON.stringify(STREAM).length / 3)
  const RESERVED_FOR_STREAM = INPUT_OF_STREAM * 10 + 1_024 * 40
  const LIMITED_STREAM = question({ stream: true, max_tokens: 50 })
  const cases: readonly (readonly [
    name: string,
    body: object,
    script: (asked: ScriptedCall) => void,
    then: 'wait' | 'disconnect',
    outcome: string,
    usage: string,
    cost: number,
  ])[] = [
    ['a refusal costs nothing', question(), (asked) => respondWith.error(asked, 400), 'wait', 'failed', 'exact', 0],
    ['an overload costs nothing', question(), (asked) => respondWith.error(asked, 503), 'wait', 'failed', 'exact', 0],
    [
      'a refused connection costs nothing',
      question(),
      (asked) => asked.fail(fail('refused', 'refused', { unsent: true })),
      'wait',
      'failed',
      'exact',
      0,
    ],
    ['a timeout costs what was reserved', question(), () => {}, 'wait', 'failed', 'estimated', RESERVED.a],
    [
      'a client that leaves before an answer that does not come pays what was reserved',
      question(),
      () => {},
      'disconnect',
      // The answer is read on, until the time for its first byte is over.
      'failed',
      'estimated',
      RESERVED.a,
    ],
    [
      'a client that leaves within a whole answer pays what was reserved',
      question({ max_tokens: 300 }),
      (asked) => {
        asked.head(200, { 'content-type': 'application/json' })
        asked.send('{"id":"chatcmpl-1","choices":[{"message":{"content":"He')
      },
      'disconnect',
      'client_gone',
      'estimated',
      Math.ceil(JSON.stringify(question({ max_tokens: 300 })).length / 3) * 10 + 300 * 40,
    ],
    [
      'a broken stream costs its text',
      STREAM,
      (asked) => respondWith.stream(asked, streamed),
      'wait',
      'interrupted',
      'estimated',
      INPUT_OF_STREAM * 10 + OUTPUT * 40,
    ],
    [
      'a client that leaves in a stream pays what was reserved',
      STREAM,
      (asked) => {
        asked.head(200, { 'content-type': 'text/event-stream' })
        asked.send(streamed)
      },
      'disconnect',
      'client_gone',
      'estimated',
      RESERVED_FOR_STREAM,
    ],
    [
      'a client that leaves in a stream that is longer than reserved pays its text',
      LIMITED_STREAM,
      (asked) => {
        asked.head(200, { 'content-type': 'text/event-stream' })
        asked.send(streamed)
      },
      'disconnect',
      'client_gone',
      'estimated',
      Math.ceil(JSON.stringify(LIMITED_STREAM).length / 3) * 10 + OUTPUT * 40,
    ],
  ]
  for (const [name, body, script, then, outcome, usage, cost] of cases)
    test(name, async () => {
      const { ask, world, records, state } = given(script, {
        budgets: [testBudget(1e9)],
        settings: { retry: { maxAttempts: 1 } },
      })
      const reply = ask(body)
      await world.advance(1_000)
      if (then === 'disconnect') reply.disconnect()
      await world.advance(700_000)
      await reply.done
      assert.deepEqual(
        closed(records).map((record) => [record.outcome, record.usageSource, record.cost]),
        [[outcome, usage, cost]],
      )
      assert.deepEqual(state(), [cost, 0, 1e9 - cost])
      assert.equal(world.timers(), 0)
    })

  describe('with `usage.drainOnAbort` the rest of a stream is read after its client has left', () => {
    const rest = [
      chatAnswer.chunk({ content: 'b' }, 'stop'),
      'data: {"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n',
      chatAnswer.done,
    ].join('')
    const left = async (isPaused = false) => {
      const harness = given(
        (asked) => {
          asked.head(200, { 'content-type': 'text/event-stream' })
          asked.send(streamed)
        },
        { budgets: [testBudget(1e9)], settings: { usage: { drainOnAbort: true } } },
      )
      const { ask, world, gateway, records, state } = harness
      const reply = ask(STREAM)
      await world.advance(1_000)
      const [upstream] = world.calls
      assert.ok(upstream)
      if (isPaused) {
        reply.writable = false
        assert.equal(upstream.send(chatAnswer.chunk({ content: 'c' })), false)
      }
      const seen = reply.text
      reply.disconnect()
      await world.advance(1_000)
      assert.equal(upstream.aborted, false)
      assert.equal(gateway.activeCalls.size, 1)
      const settled = async () => {
        await reply.done
        assert.equal(reply.text, seen)
        assert.equal(ended(records)[0]?.outcome, 'client_gone')
        assert.equal(gateway.activeCalls.size, 0)
        assert.equal(world.timers(), 0)
        const cost = closed(records)[0]?.cost ?? 0
        assert.deepEqual(state(), [cost, 0, 1e9 - cost])
        return closed(records).map((record) => [record.outcome, record.usageSource, record.cost])
      }
      return { ...harness, upstream, settled }
    }
    const estimated = [['client_gone', 'estimated', RESERVED_FOR_STREAM]]

    for (const isPaused of [false, true])
      test(`and its count is charged${isPaused ? ', also if the client had stopped reading' : ''}`, async () => {
        const { upstream, settled } = await left(isPaused)
        assert.equal(upstream.resumed, isPaused ? 1 : 0)
        upstream.send(rest)
        upstream.end()
        assert.deepEqual(await settled(), [['ok', 'exact', COST.a]])
      })

    test('for at most 30 s', async () => {
      const { world, upstream, settled } = await left()
      await world.advance(28_000)
      assert.equal(upstream.aborted, false)
      await world.advance(1_001)
      assert.equal(upstream.aborted, true)
      assert.deepEqual(await settled(), estimated)
    })

    test('until it breaks', async () => {
      const { upstream, settled } = await left()
      upstream.fail(fail('reset', 'connection reset'))
      assert.deepEqual(await settled(), estimated)
    })

    test('until the process ends', async () => {
      const { gateway, upstream, settled } = await left()
      for (const call of [...gateway.activeCalls]) call.cancel(fail('shutdown', 'it ends'))
      assert.equal(upstream.aborted, true)
      assert.deepEqual(await settled(), estimated)
    })
  })

  describe('a whole answer is read after its client has left, for a hard budget or with `usage.drainOnAbort`', () => {
    const left = async (mode: 'hard' | 'soft' = 'hard') => {
      const harness = given(() => {}, {
        instances: [A, B],
        budgets: [testBudget(1e9, { mode })],
        // A hard budget needs the count anyway.
        settings: { usage: { drainOnAbort: mode === 'soft' }, hedge: { percent: 100, delay: 5_000 } },
      })
      const { ask, world, gateway, records, state } = harness
      const reply = ask()
      await world.advance(1_000)
      reply.disconnect()
      await world.advance(10_000)
      const [upstream] = world.calls
      assert.ok(upstream)
      assert.equal(upstream.aborted, false)
      const settled = async () => {
        await reply.done
        // No other target is tried for a client that has left.
        assert.equal(world.calls.length, 1)
        assert.equal(ended(records)[0]?.outcome, 'client_gone')
        assert.equal(gateway.activeCalls.size, 0)
        assert.equal(world.timers(), 0)
        const cost = closed(records)[0]?.cost ?? 0
        assert.deepEqual(state(), [cost, 0, 1e9 - cost])
        return closed(records).map(({ usageSource, cost: charged }) => [usageSource, charged])
      }
      return { ...harness, upstream, settled }
    }

    for (const mode of ['hard', 'soft'] as const)
      test(`and its count is charged (${mode})`, async () => {
        const { world, upstream, settled } = await left(mode)
        whole(upstream)
        await world.advance(1)
        assert.deepEqual(await settled(), [['exact', COST.a]])
      })

    test('not for a soft budget alone', async () => {
      const { ask, world, records } = given(() => {}, { budgets: [testBudget(1e9, { mode: 'soft' })] })
      const reply = ask()
      await world.advance(1_000)
      reply.disconnect()
      await world.advance(1)
      assert.equal(world.calls[0]?.aborted, true)
      assert.equal(closed(records)[0]?.cost, RESERVED.a)
    })

    test('for at most 30 s', async () => {
      const { world, upstream, settled } = await left()
      await world.advance(21_000)
      assert.equal(upstream.aborted, true)
      assert.deepEqual(await settled(), [['estimated', RESERVED.a]])
    })

    test('until it fails', async () => {
      const { world, upstream, settled } = await left()
      respondWith.error(upstream, 503)
      await world.advance(1)
      assert.deepEqual(await settled(), [['exact', 0]])
    })

    test('until the process ends or the key is revoked', async () => {
      const { gateway, upstream, settled } = await left()
      assert.equal(gateway.activeCalls.cancelOf(testClient().id, fail('unauthenticated', 'revoked')), 2)
      assert.equal(upstream.aborted, true)
      assert.deepEqual(await settled(), [['estimated', RESERVED.a]])
    })
  })

  test('a client that leaves pays for what it has asked for, also after short answers', async () => {
    const short = chatAnswer.whole('Hello')
    let count = 0
    const script = (asked: ScriptedCall) => {
      if (count++ < 20) respondWith.json(asked, 200, short)
    }
    for (const [more, output] of [
      [{ max_tokens: 8_000 }, 8_000],
      [{ max_tokens: 8_000, n: 2 }, 16_000],
      [{ max_tokens: 1e9 }, 32_768],
      [{}, 1_024],
    ] as const) {
      count = 0
      const { ask, world, records } = given(script, { budgets: [testBudget(1e12)] })
      for (let n = 0; n < 20; n++) {
        ask(question())
        await world.advance(1)
      }
      const reply = ask(question(more))
      await world.advance(1)
      reply.disconnect()
      await world.advance(31_000)
      const last = closed(records).at(-1)
      assert.equal(last?.tokens.output, output)
      assert.ok((last?.cost ?? 0) >= output * 40)
      // The usual length of 2 tokens is reserved.
      assert.ok((opened(records).at(-1)?.reserved ?? 0) < 10_000)
    }
  })

  for (const stream of [false, true])
    test(`a request cut because its key was revoked pays what was reserved${stream ? ', streamed' : ''}`, async () => {
      const { ask, world, gateway, records } = given(
        (asked) => {
          if (!stream) return
          asked.head(200, { 'content-type': 'text/event-stream' })
          asked.send(streamed)
        },
        { budgets: [testBudget(1e9)] },
      )
      const reply = ask(stream ? STREAM : question())
      await world.advance(1_000)
      for (const call of [...gateway.activeCalls]) call.cancel(fail('unauthenticated', 'The key was revoked.'))
      await world.advance(1)
      await reply.done
      assert.deepEqual(
        closed(records).map(({ usageSource, cost }) => [usageSource, cost]),
        [['estimated', stream ? RESERVED_FOR_STREAM : RESERVED.a]],
      )
    })

  test('each attempt of a fallback by itself', async () => {
    const script = (asked: ScriptedCall) => (host(asked) === 'a' ? undefined : whole(asked))
    const { ask, world, records, state } = given(script, {
      instances: [A, B],
      budgets: [testBudget(1e9)],
      settings: { circuit: { timeout: 1_000 } },
    })
    const reply = ask()
    await world.advance(2_000)
    assert.equal(reply.status, 200)
    assert.deepEqual(
      closed(records).map(({ attempt, outcome, cost }) => [attempt, outcome, cost]),
      [
        [0, 'failed', RESERVED.a],
        [1, 'ok', COST.b],
      ],
    )
    assert.equal(state()?.[0], RESERVED.a + COST.b)
    assert.equal(reply.headers['x-headgate-cost'], formatDollars(RESERVED.a + COST.b))
    assert.equal(reply.headers['x-headgate-usage'], 'estimated')
  })

  test('a hedge is not sent if the first attempt opens while it is recorded', async () => {
    const { ask, world, records } = given(() => {}, {
      instances: [A, B],
      settings: { hedge: { percent: 100, delay: 100 } },
      journalMs: 50,
    })
    const reply = ask()
    // Sent after 50 ms; the hedge is recorded from 150 ms to 200 ms.
    await world.advance(170)
    whole(world.calls[0] ?? assert.fail())
    await world.advance(100)
    assert.equal(reply.status, 200)
    assert.equal(world.calls.length, 1)
    assert.deepEqual(
      closed(records).map(({ outcome }) => outcome),
      ['abandoned', 'ok'],
    )
  })

  test('a hedge is not sent if the first attempt is refused while it is recorded', async () => {
    const { ask, world, records } = given(() => {}, {
      instances: [A, B],
      settings: { hedge: { percent: 100, delay: 100 } },
      journalMs: 50,
    })
    const reply = ask()
    await world.advance(170)
    const refusal = JSON.stringify({ error: { message: 'No.', code: 'content_policy_violation' } })
    respondWith.json(world.calls[0] ?? assert.fail(), 400, refusal)
    await world.advance(100)
    assert.equal(reply.status, 400)
    assert.equal(world.calls.length, 1)
    assert.deepEqual(
      closed(records).map(({ outcome }) => outcome),
      ['abandoned', 'failed'],
    )
  })

  test('a hedge that lost pays what was reserved', async () => {
    const script = (asked: ScriptedCall) => (host(asked) === 'a' ? undefined : whole(asked))
    const { ask, world, records } = given(script, {
      instances: [A, B],
      settings: { hedge: { percent: 100, delay: 100 } },
    })
    ask()
    await world.advance(5_000)
    assert.deepEqual(
      closed(records).map(({ attempt, outcome, cost }) => [attempt, outcome, cost]),
      [
        [0, 'abandoned', RESERVED.a],
        [1, 'ok', COST.b],
      ],
    )
    assert.deepEqual(
      opened(records).map(({ hedge }) => hedge),
      [false, true],
    )
  })
})

describe('a budget', () => {
  test('that has less left than a request needs states that a smaller one may fit', async () => {
    const { ask, world } = given(answers, { budgets: [testBudget(RESERVED.a - 1)] })
    const reply = ask()
    await world.advance(1)
    assert.equal(reply.status, 402)
    assert.equal(
      reply.json.error.message,
      'The budget of this request for the month has too little left for this request, unless its max_tokens is smaller; it begins again on 2027-02-01.',
    )
  })

  test('that is used up refuses with 402 before any attempt', async () => {
    const { ask, world, records } = given(answers, { budgets: [testBudget(0)] })
    const reply = ask()
    await world.advance(1)
    assert.equal(reply.status, 402)
    const { error } = reply.json
    assert.deepEqual([error.type, error.code], ['billing_error', 'budget_exceeded'])
    assert.equal(error.message, 'The budget of this request for the month is used up; it begins again on 2027-02-01.')
    assert.equal(reply.headers['x-headgate-limit'], 'budget; id=bud_test; resets=2027-02-01')
    assert.equal(reply.headers['x-should-retry'], 'false')
    assert.equal(reply.headers['x-headgate-attempts'], '0')
    assert.equal(reply.headers['retry-after'], undefined)
    assert.deepEqual(
      ended(records).map(({ outcome, status, code }) => [outcome, status, code]),
      [['refused', 402, 'budget_exceeded']],
    )
    assert.equal(world.calls.length, 0)
  })

  test("refuses in Anthropic's form on /v1/messages", async () => {
    const { ask, world } = given(answers, { budgets: [testBudget(0)] })
    const reply = ask(question({ max_tokens: 10 }), 'anthropic-messages')
    await world.advance(1)
    assert.equal(reply.status, 402)
    assert.equal(reply.json.error.type, 'billing_error')
  })

  test('that is used up is the reason, not the missing price of another target', async () => {
    const { ask, world } = given(answers, { instances: [A, instance('c')], budgets: [testBudget(10)] })
    const reply = ask()
    await world.advance(1)
    assert.equal(reply.status, 402)
    assert.match(reply.json.error.message, /has too little left/)
  })

  test('that cannot afford a target uses a cheaper one, and the trail shows it', async () => {
    const { ask, world } = given(answers, { instances: [A, B], budgets: [testBudget(RESERVED.b)] })
    const reply = ask()
    await world.advance(1)
    assert.equal(reply.status, 200)
    assert.equal(reply.headers['x-headgate-trail'], 'a#k1:budget, b#k1:200')
  })

  test('of one model does not refuse another', async () => {
    const budget = testBudget(0, { appliesTo: { ...testBudget(0).appliesTo, providers: ['a'] } })
    const { ask, world } = given(answers, { instances: [A, B], budgets: [budget] })
    const reply = ask()
    await world.advance(1)
    assert.equal(reply.headers['x-headgate-provider'], 'b')
  })

  test('reserves while calls are in progress, so that calls at once do not exceed it', async () => {
    const { ask, world, state } = given(() => {}, { budgets: [testBudget(2.5 * RESERVED.a)] })
    const replies = [ask(), ask(), ask()]
    await world.advance(1)
    assert.deepEqual(
      replies.map(({ status }) => status),
      [null, null, 402],
    )
    assert.deepEqual(state(), [0, 2 * RESERVED.a, 0.5 * RESERVED.a])
    for (const reply of replies.slice(0, 2)) reply.disconnect()
    await world.advance(1)
    // What the upstream generates is read for 30 s more.
    assert.deepEqual(state(), [0, 2 * RESERVED.a, 0.5 * RESERVED.a])
    await world.advance(30_000)
    assert.deepEqual(state(), [2 * RESERVED.a, 0, 0.5 * RESERVED.a])
  })

  test('keeps what is spent when its amount changes', async () => {
    const { ask, world, state, change } = given(answers, { budgets: [testBudget(1e9)] })
    ask()
    await world.advance(1)
    change([testBudget(2e9)])
    assert.deepEqual(state(), [COST.a, 0, 2e9 - COST.a])
    change([testBudget(50)])
    assert.deepEqual(state(), [COST.a, 0, 0])
    const reply = ask()
    await world.advance(1)
    assert.equal(reply.status, 402)
  })

  test('that is soft only warns', async () => {
    const { ask, world } = given(answers, { budgets: [testBudget(0, { mode: 'soft' })] })
    const reply = ask()
    await world.advance(1)
    assert.equal(reply.status, 200)
    assert.equal(reply.headers['x-headgate-warning'], 'budget research')
  })

  test('without a known price: the target is skipped if settings require it', async () => {
    const unpriced = instance('c')
    for (const [unknownPrice, status] of [
      ['allow', 200],
      ['refuse', 402],
      // The provider has no price at all.
      ['dearest', 402],
    ] as const) {
      const { ask, world } = given(answers, {
        instances: [unpriced],
        budgets: [testBudget(1e9)],
        rules: { unknownPrice },
      })
      const reply = ask()
      await world.advance(1)
      assert.equal(reply.status, status)
    }
  })

  describe('without a known price: the dearest price of the provider', () => {
    const prices = { input: 20, output: 70 }
    const dearest: Catalogue = Object.assign(
      (_: string, model: string) => (model === 'dear' ? { prices } : undefined),
      {
        prices: (name: string) => (name === 'c' ? [prices] : []),
      },
    )
    const asked = (mode: 'hard' | 'soft') =>
      given(answers, { instances: [instance('c')], budgets: [testBudget(1e9, { mode })], catalogue: dearest })

    test('is reserved and charged, and marked as estimated', async () => {
      const { ask, world, records, state, events } = asked('hard')
      const reply = ask()
      await world.advance(1)
      assert.equal(reply.status, 200)
      assert.equal(opened(records)[0]?.reserved, INPUT * prices.input + 1_024 * prices.output)
      const cost = 3 * prices.input + 2 * prices.output
      assert.deepEqual(
        closed(records).map((record) => [record.cost, record.usageSource, record.priceSource]),
        [[cost, 'estimated', 'assumed']],
      )
      assert.deepEqual(state(), [cost, 0, 1e9 - cost])
      assert.equal(reply.headers['x-headgate-usage'], 'estimated')
      const [trace = []] = events.flatMap((event) => (event.event === 'request' ? [event.trace] : []))
      assert.equal(summaryOf(trace).isPriceAssumed, true)
    })

    test('is not assumed for a soft budget', async () => {
      const { ask, world, records } = asked('soft')
      ask()
      await world.advance(1)
      assert.deepEqual(
        closed(records).map((record) => [record.cost, record.priceSource]),
        [[null, 'none']],
      )
    })
  })

  test('without a known price: the cost is not stated as 0 because an earlier attempt cost nothing', async () => {
    const fails = (asked: ScriptedCall) => (host(asked) === 'a' ? respondWith.error(asked, 503) : answers(asked))
    const { ask, world } = given(fails, { instances: [A, instance('c')] })
    const reply = ask()
    await world.advance(1_000)
    assert.deepEqual([reply.status, reply.headers['x-headgate-attempts']], [200, '2'])
    assert.equal(reply.headers['x-headgate-cost'], undefined)
  })

  describe('that is spent does not refuse a model that costs nothing', () => {
    const C = instance('c')
    const FREE = { input: 0, output: 0 }
    const spent = (more: Given = {}, script = answers) =>
      given(script, { instances: [C], prices: { c: FREE }, budgets: [testBudget(0)], ...more })

    test('by a rule of the operator', async () => {
      const { ask, world, records, state } = spent()
      const reply = ask()
      await world.advance(1)
      assert.equal(reply.status, 200)
      assert.equal(reply.headers['x-headgate-cost'], '0.000000000')
      assert.deepEqual(
        closed(records).map(({ cost, priceSource }) => [cost, priceSource]),
        [[0, 'override']],
      )
      assert.deepEqual(state(), [0, 0, 0])
    })

    for (const [what, budget] of [
      ['of its key', { per: 'key' }],
      ['of its provider alone', { appliesTo: { ...testBudget(0).appliesTo, providers: ['c'] } }],
      ['that is strict', { enforcement: 'strict' }],
    ] as const)
      test(`${what}`, async () => {
        const { ask, world } = spent({ budgets: [testBudget(0, budget)] })
        const reply = ask()
        await world.advance(1)
        assert.equal(reply.status, 200)
      })

    test('but it refuses the paid model to which the request would go next', async () => {
      const fails = (asked: ScriptedCall) => (host(asked) === 'c' ? respondWith.error(asked, 503) : answers(asked))
      const { ask, world } = spent({ instances: [C, A], settings: { retry: { sameModelWait: 0 } } }, fails)
      const reply = ask()
      await world.advance(60_000)
      assert.ok(world.calls.every((call) => host(call) === 'c'))
      assert.equal(reply.status, 502)
      assert.match(reply.json.error.message, /The budget of this request for the month is used up/)
      assert.equal(reply.headers['x-headgate-limit'], 'budget; id=bud_test; resets=2027-02-01')
    })

    test('and the free model is tried where the paid one is not', async () => {
      const { ask, world } = spent({ instances: [A, C] })
      const reply = ask()
      await world.advance(1)
      assert.equal(reply.headers['x-headgate-trail'], 'a#k1:budget, c#k1:200')
    })

    for (const [what, prices] of [
      ['only its input is free', { input: 0, output: 1 }],
      ['its input is dear where it is long', { ...FREE, tiers: [{ above: 10, input: 5 }] }],
      ['its searches have a price', { ...FREE, tools: { web_search: 1 } }],
      ['its cache has a price', { ...FREE, cacheWrite: 1 }],
    ] as const)
      test(`unless ${what}`, async () => {
        const { ask, world } = spent({ prices: { c: prices } })
        const reply = ask()
        await world.advance(1)
        assert.equal(reply.status, 402)
      })

    test('unless its price is only unknown', async () => {
      const { ask, world } = spent({ prices: {}, rules: { unknownPrice: 'allow' } })
      const reply = ask()
      await world.advance(1)
      assert.equal(reply.status, 402)
    })

    test('and limits apply', async () => {
      const { ask, world } = spent({ client: testClient({ requestsPerMinute: 0 }) })
      const reply = ask()
      await world.advance(1)
      assert.equal(reply.status, 429)
    })
  })

  describe('is named where no target may be tried', () => {
    const ofA = { appliesTo: { ...testBudget(0).appliesTo, providers: ['a', 'b'] } }
    /** A circuit of `a` that is open. */
    const broken = async (amount: number, more: Given = {}) => {
      const harness = given((asked) => (host(asked) === 'a' ? respondWith.error(asked, 503) : answers(asked)), {
        instances: [A],
        settings: { circuit: { consecutiveFailures: 1, whenAllOpen: 'fail' }, retry: { maxAttempts: 1 } },
        ...more,
      })
      const { ask, world, change } = harness
      ask()
      await world.advance(5_000)
      change([testBudget(amount, ofA)])
      return harness
    }

    test('if its circuits are open and the budget is spent', async () => {
      const { ask, world } = await broken(0)
      const reply = ask()
      await world.advance(5_000)
      assert.equal(reply.status, 402)
      assert.match(reply.json.error.message, /The budget of this request for the month is used up/)
      assert.equal(reply.headers['x-headgate-limit'], 'budget; id=bud_test; resets=2027-02-01')
    })

    test('beside the circuit, if the budget has room for that target only', async () => {
      const { ask, world, change } = await broken(0, { instances: [A, B] })
      change([testBudget(0, { appliesTo: { ...ofA.appliesTo, providers: ['b'] } })])
      const reply = ask()
      await world.advance(5_000)
      assert.equal(reply.status, 503)
      assert.match(reply.json.error.message, /circuits are open.*The budget of this request for the month is used up/)
      assert.equal(reply.headers['x-headgate-limit'], 'budget; id=bud_test; resets=2027-02-01')
    })

    test('not if it has room', async () => {
      const { ask, world } = await broken(1e9)
      const reply = ask()
      await world.advance(5_000)
      assert.equal(reply.status, 503)
      assert.equal(reply.headers['x-headgate-limit'], undefined)
    })
  })

  test('continues from what earlier runs have spent', async () => {
    const { accounts, state } = given(answers, { budgets: [testBudget(1_000)] })
    const [{ periodStart } = { periodStart: 0 }] = accounts.budgetStates()
    const [counters] = accounts.unrestored()
    assert.ok(counters)
    const sums = [
      { counter: 'bud_test:', period_start: periodStart, spent: 300 },
      { counter: 'bud_test:', period_start: 0, spent: 77 },
      { counter: 'bud_removed:', period_start: periodStart, spent: 77 },
    ]
    accounts.restore(counters, sums, [])
    assert.deepEqual(state(), [300, 0, 700])
    assert.deepEqual(accounts.unrestored(), [])
    accounts.restore(counters, sums, [])
    assert.deepEqual(state(), [300, 0, 700])
  })

  test('that appears while requests are answered counts what the ledger contains, once', async () => {
    const { ask, world, accounts, state } = given(answers, { budgets: [testBudget(1e9)] })
    ask(question())
    await world.advance(1)
    const [{ periodStart, spent } = { periodStart: 0, spent: 0 }] = accounts.budgetStates()
    assert.ok(spent > 0)
    const [counters] = accounts.unrestored()
    assert.ok(counters)
    const uses = accounts.usesOf(counters)
    // Another answer while the ledger is read.
    ask(question())
    await world.advance(1)
    accounts.restore(counters, [{ counter: 'bud_test:', period_start: periodStart, spent: 300 + spent }], uses)
    assert.equal(state()?.[0], 300 + 2 * spent)
  })

  test('has one counter for each owner', async () => {
    const { ask, world, accounts } = given(answers, { budgets: [testBudget(RESERVED.a, { per: 'key' })] })
    ask(question(), 'openai-chat', testClient({}, 'key_a'))
    ask(question(), 'openai-chat', testClient({}, 'key_b'))
    await world.advance(1)
    assert.deepEqual(
      accounts.budgetStates().map(({ owner, spent }) => [owner, spent]),
      [
        ['key_a', COST.a],
        ['key_b', COST.a],
      ],
    )
  })

  test('charges the period in which a request was received', async () => {
    const { ask, world, accounts } = given(() => {}, { budgets: [testBudget(1e9, { period: 'hour' })] })
    const reply = ask(STREAM)
    const [before] = accounts.budgetStates()
    await world.advance(3_600_000)
    reply.disconnect()
    await world.advance(1)
    const [after] = accounts.budgetStates()
    assert.notEqual(after?.periodStart, before?.periodStart)
    assert.deepEqual([after?.spent, after?.reserved], [0, 0])
  })
})

describe('a stream that costs more than reserved', () => {
  const long = chatAnswer.chunk({ content: 'word '.repeat(20_000) })
  const endless = (asked: ScriptedCall) => {
    asked.head(200, { 'content-type': 'text/event-stream' })
    asked.send(chatAnswer.role() + long)
  }

  test('reserves more', async () => {
    const { ask, world, state } = given(endless, { budgets: [testBudget(1e9)] })
    const reply = ask(STREAM)
    await world.advance(500)
    const [, before = 0] = state() ?? []
    await world.advance(1_000)
    const [, after = 0] = state() ?? []
    assert.ok(after > before * 2, `${before} → ${after}`)
    reply.disconnect()
    await world.advance(1)
    assert.equal(state()?.[1], 0)
  })

  test('ends as usual if the budget has no room', async () => {
    const { ask, world } = given(endless, { budgets: [testBudget(100_000)] })
    const reply = ask(STREAM)
    await world.advance(10_000)
    assert.equal(reply.ending, null)
    reply.disconnect()
    await world.advance(1)
  })

  test('is cut with an error if the budget requires it', async () => {
    const { ask, world, records, state } = given(endless, { budgets: [testBudget(100_000, { onOverrun: 'cut' })] })
    const reply = ask(STREAM)
    await world.advance(2_500)
    assert.equal(reply.ending, 'ended')
    assert.match(reply.text, /has too little left for the rest of this answer; .*"code":"budget_exceeded"/)
    assert.equal(closed(records)[0]?.outcome, 'interrupted')
    assert.equal(state()?.[1], 0)
    assert.equal(world.timers(), 0)
  })
})

describe('a limit of the key', () => {
  test('of requests refuses with 429 and the time to wait', async () => {
    const { ask, world } = given(answers, { client: testClient({ requestsPerMinute: 2 }) })
    const first = ask()
    const second = ask()
    await world.advance(1)
    assert.equal(first.headers['x-ratelimit-limit-requests'], '2')
    assert.equal(first.headers['x-ratelimit-remaining-requests'], '0')
    const third = ask()
    await world.advance(1)
    assert.deepEqual([first.status, second.status, third.status], [200, 200, 429])
    assert.equal(third.json.error.code, 'rate_limit_exceeded')
    assert.equal(third.headers['x-headgate-limit'], 'requests; id=key_test')
    assert.equal(third.headers['x-should-retry'], 'true')
    assert.equal(third.headers['retry-after'], '30')
    assert.equal(third.headers['retry-after-ms'], '29999')
    assert.equal(third.headers['x-headgate-attempts'], '0')
    await world.advance(30_000)
    const fourth = ask()
    await world.advance(1)
    assert.equal(fourth.status, 200)
  })

  test('of tokens is settled by what was used', async () => {
    const { ask, world } = given(answers, { client: testClient({ tokensPerMinute: 1_200 }) })
    const replies = []
    for (let n = 0; n < 3; n++) {
      replies.push(ask())
      await world.advance(1)
    }
    assert.deepEqual(
      replies.map(({ status }) => status),
      [200, 200, 200],
    )
    assert.equal(replies[2]?.headers['x-ratelimit-remaining-tokens'], '1185')
  })

  test('of tokens refuses what is estimated above it', async () => {
    const { ask, world } = given(() => {}, { client: testClient({ tokensPerMinute: 1_200 }) })
    const first = ask()
    const second = ask()
    await world.advance(1)
    assert.deepEqual([first.status, second.status], [null, 429])
    assert.equal(second.headers['x-headgate-limit'], 'tokens; id=key_test')
    first.disconnect()
    await world.advance(1)
  })

  test('of concurrent requests is free again when they end, however they end', async () => {
    let script: (asked: ScriptedCall) => void = () => {}
    const { ask, world } = given((asked) => script(asked), {
      client: testClient({ concurrent: 1 }),
      settings: { retry: { maxAttempts: 1 } },
    })
    const ends: readonly ((asked: ScriptedCall) => void)[] = [
      (asked) => respondWith.error(asked, 500),
      (asked) => asked.fail(fail('reset', 'reset')),
      (asked) => respondWith.json(asked, 200, '{"id":'),
      whole,
      () => {},
    ]
    for (const end of ends) {
      script = () => {}
      const running = ask()
      await world.advance(1)
      const refused = ask()
      await world.advance(1)
      assert.equal(refused.status, 429)
      assert.equal(refused.headers['x-headgate-limit'], 'concurrent; id=key_test')
      const call = world.calls.at(-1)
      assert.ok(call)
      end(call)
      if (running.status === null) running.disconnect()
      await world.advance(1)
      await running.done
    }
  })

  test('refuses each further attempt of a request, but its request counts once', async () => {
    const script = (asked: ScriptedCall) => (host(asked) === 'a' ? respondWith.error(asked, 503) : whole(asked))
    const { ask, world } = given(script, {
      instances: [A, B],
      client: testClient({ requestsPerMinute: 1, concurrent: 1 }),
    })
    const reply = ask()
    await world.advance(1)
    assert.equal(reply.status, 200)
  })

  test("is reported by Anthropic's headers on /v1/messages", async () => {
    const { ask, world } = given(answers, { client: testClient({ requestsPerMinute: 10 }) })
    const reply = ask(question({ max_tokens: 10 }), 'anthropic-messages')
    await world.advance(1)
    assert.equal(reply.headers['anthropic-ratelimit-requests-remaining'], '9')
    assert.equal(reply.headers['x-ratelimit-limit-requests'], undefined)
  })
})

describe('a stream states its cost at its end on request', () => {
  const usage =
    'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\n'
  const counted = (asked: ScriptedCall) =>
    respondWith.stream(asked, chatAnswer.stream('Hel', 'lo').replace(chatAnswer.done, usage + chatAnswer.done))
  const events = (text: string) => text.split('\n\n').flatMap((event) => /^data: (.*)$/m.exec(event)?.[1] ?? [])

  test('in an event before the terminator of chat completions', async () => {
    const { ask, world } = given(counted)
    const reply = ask({ ...STREAM, stream_options: { include_usage: true } }, 'openai-chat', testClient(), 'body')
    await world.advance(1)
    const [last, done] = events(reply.text).slice(-2)
    assert.equal(done, '[DONE]')
    const { headgate, choices } = JSON.parse(last ?? '')
    assert.deepEqual([headgate, choices], [{ cost: formatDollars(COST.a), usage: 'exact' }, []])
  })

  test('in the last event of responses', async () => {
    const { ask, world } = given(counted)
    const body = { model: 'm', input: 'hello', stream: true, store: false }
    const reply = ask(body, 'openai-responses', testClient(), 'body')
    await world.advance(1)
    const { type, headgate } = JSON.parse(events(reply.text).findLast((event) => event !== '[DONE]') ?? '')
    assert.equal(type, 'response.completed')
    assert.deepEqual(headgate, { cost: formatDollars(COST.a), usage: 'exact' })
  })

  test('and not without the request', async () => {
    const { ask, world } = given(counted)
    const reply = ask(STREAM)
    await world.advance(1)
    assert.doesNotMatch(reply.text, /headgate/)
  })

  test('nor if it is interrupted', async () => {
    const { ask, world } = given((asked) =>
      respondWith.stream(asked, chatAnswer.role() + chatAnswer.chunk({ content: 'x' })),
    )
    const reply = ask(STREAM, 'openai-chat', testClient(), 'body')
    await world.advance(1)
    assert.doesNotMatch(reply.text, /"headgate"/)
    assert.match(reply.text, /stream_interrupted/)
  })
})

test('tokens of steps that the counts of an answer leave out are recorded with them', async () => {
  const usage = {
    input_tokens: 10,
    output_tokens: 5,
    iterations: [
      { type: 'compaction', input_tokens: 100, output_tokens: 20, cache_read_input_tokens: 7 },
      { type: 'message', input_tokens: 10, output_tokens: 5 },
    ],
  }
  const answer = { id: 'msg_1', type: 'message', role: 'assistant', model: 'm', stop_reason: 'end_turn' }
  const body = JSON.stringify({ ...answer, content: [{ type: 'text', text: 'Hello' }], usage })
  const { ask, world, records, state } = given((asked) => respondWith.json(asked, 200, body), {
    instances: [instance('a', ['k1'], { speaks: [{ protocol: 'anthropic-messages' }] })],
    budgets: [testBudget(1e9)],
  })
  ask(question({ max_tokens: 50 }), 'anthropic-messages')
  await world.advance(1)
  const [{ tokens, cost } = assert.fail()] = closed(records)
  assert.deepEqual([tokens.input, tokens.output, tokens.cacheRead], [117, 25, 7])
  // Only if the columns have all tokens, they can be priced again.
  assert.equal(cost, tokens.input * 10 + tokens.output * 40)
  assert.equal(state()?.[0], cost)
})
