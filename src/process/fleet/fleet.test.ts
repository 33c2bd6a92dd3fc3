/** Gateways that share a list of messages in memory. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { News, NewsStore, NewsStoreOptions } from '../../news/news-store.ts'
import { Fleet } from './fleet.ts'
import { encodeMessage } from './fleet-messages.ts'
import type { ReceivedNotice } from './notice.ts'

const STATE = { version: '1', status: 'ok', problems: [], lag_ms: 0, started_at: 'x', requests_in_progress: 0 }

const sharedList = () => {
  const readers = new Map<string, NewsStoreOptions>()
  const deliver = (to: string, news: News) => readers.get(to)?.onNews([news])
  const open = (options: NewsStoreOptions): NewsStore => {
    readers.set(options.node, options)
    return {
      async send(messages) {
        await sleep(0)
        for (const { to, body } of messages)
          for (const node of readers.keys())
            if (node !== options.node && (to ?? node) === node) deliver(node, { from: options.node, body, age: 0 })
      },
      claim: async () => true,
      release: async () => {},
      load: async () => null,
      save: async () => {},
      async close() {
        readers.delete(options.node)
      },
    }
  }
  return { open, deliver, readers }
}

/** `answer`: to queries other than beats; null: it hangs. */
const gateway = (
  context: TestContext,
  list: ReturnType<typeof sharedList>,
  node: string,
  answer: ((ask: string) => string) | null = (ask) => `${node} ${ask}`,
) => {
  const asked: string[] = []
  const notices: ReceivedNotice[] = []
  const fleet = new Fleet({
    node,
    open: list.open,
    async answer(ask) {
      if (ask.includes('beat')) return { of: 2, replies: [{ name: '1/2', reply: JSON.stringify(STATE) }] }
      asked.push(ask)
      if (!answer) return new Promise(() => {})
      return { of: 1, replies: [{ name: null, reply: answer(ask) }] }
    },
    onNotice: (received) => notices.push(received),
    onState: () => {},
  })
  context.after(() => fleet.close())
  return { fleet, asked, notices }
}

const begun = () => sleep(20)

test('fleet: gateways list each other, and one that ends leaves the list', async (context) => {
  const list = sharedList()
  const [a, b] = [gateway(context, list, 'a'), gateway(context, list, 'b')]
  await begun()
  // The first beat of a was before b.
  assert.deepEqual(
    a.fleet.gateways().map(({ node, processes }) => [node, processes]),
    [
      ['a', { answered: 1, of: 2 }],
      ['b', { answered: 1, of: 2 }],
    ],
  )
  await b.fleet.close()
  assert.deepEqual(
    a.fleet.gateways().map(({ node }) => node),
    ['a'],
  )
})

test('fleet: a question has the answers of those that reply in time, and counts the others', async (context) => {
  const list = sharedList()
  const [a] = [gateway(context, list, 'a'), gateway(context, list, 'b'), gateway(context, list, 'c', null)]
  await begun()
  const { of, replies } = await a.fleet.ask('x', { within: 1_000, isKept: false })
  assert.deepEqual([of, replies], [4, [{ name: 'b', reply: 'b x' }]])
})

test('fleet: a question without others needs no time, and a large answer arrives whole', async (context) => {
  const list = sharedList()
  const large = 'x'.repeat(100_000)
  const a = gateway(context, list, 'a')
  assert.deepEqual(await a.fleet.ask('x', { within: 60_000, isKept: true }), { of: 0, replies: [] })
  gateway(context, list, 'b', () => large)
  await begun()
  assert.equal((await a.fleet.ask('x', { within: 60_000, isKept: false })).replies[0]?.reply, large)
})

test('fleet: a question that is read late is run only if it has an effect that must not be lost', async (context) => {
  const list = sharedList()
  const { asked } = gateway(context, list, 'a')
  const send = (ask: string, isKept: boolean) => {
    const body = encodeMessage({ is: 'ask', id: ask, ask, within: 100, isKept })
    list.deliver('a', { from: 'b', body, age: 60_000 })
  }
  send('system', false)
  send('cut', true)
  assert.deepEqual(asked, ['cut'])
})

test('fleet: what another version or another program has written changes nothing', async (context) => {
  const list = sharedList()
  const { asked, notices, fleet } = gateway(context, list, 'a')
  for (const body of ['', 'x', '{}', '[]', 'null', 'zz', 'z////', '{"is":"later"}', '{"is":1}', '{"is":"answer"}'])
    list.deliver('a', { from: 'b', body, age: 0 })
  await begun()
  assert.deepEqual([asked, notices, fleet.gateways().length], [[], [], 1])
})

test('fleet: a notice goes to all others, or to one', async (context) => {
  const list = sharedList()
  const [a, b, c] = [gateway(context, list, 'a'), gateway(context, list, 'b'), gateway(context, list, 'c')]
  a.fleet.tell({ kind: 'hints', hints: [] })
  a.fleet.tell({ kind: 'live', on: true }, 'c')
  await begun()
  const kinds = ({ notices }: typeof a) => notices.map(({ notice, from }) => `${from} ${notice.kind}`)
  assert.deepEqual([kinds(a), kinds(b), kinds(c)], [[], ['a hints'], ['a hints', 'a live']])
})

test('fleet: while the store cannot be used, questions are answered at once', async (context) => {
  const list = sharedList()
  const [a] = [gateway(context, list, 'a'), gateway(context, list, 'b')]
  await begun()
  list.readers.get('a')?.onState('it is away')
  assert.deepEqual(await a.fleet.ask('x', { within: 60_000, isKept: false }), { of: 2, replies: [] })
})
