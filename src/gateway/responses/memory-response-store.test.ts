import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { StoredResponse } from '../../core/stored-response.ts'
import { memoryResponseStore } from './memory-response-store.ts'

const response = (id: string, size = 10, owner = 'me'): StoredResponse => ({
  id,
  owner,
  previous: null,
  status: 'completed',
  created: 1,
  input: '',
  response: 'x'.repeat(size),
  events: null,
  items: [`item_${id}`],
  maker: null,
})

test('memory store: a stored response is found by its owner only', () => {
  const store = memoryResponseStore(100)
  store.put(response('a'))
  assert.deepEqual(store.get('a', 'me'), response('a'))
  assert.equal(store.get('a', 'you'), undefined)
  assert.equal(store.findByItem('item_a', 'me')?.id, 'a')
  assert.equal(store.findByItem('item_a', 'you'), undefined)
  assert.equal(store.delete('a', 'you'), false)
  assert.equal(store.delete('a', 'me'), true)
  assert.equal(store.delete('a', 'me'), false)
  assert.equal(store.findByItem('item_a', 'me'), undefined)
})

const put = (store: ReturnType<typeof memoryResponseStore>, ...sizes: readonly (readonly [string, number])[]) => {
  for (const [id, size] of sizes) store.put(response(id, size))
}

const cases: readonly (readonly [
  string,
  (store: ReturnType<typeof memoryResponseStore>) => void,
  readonly string[],
])[] = [
  ['all fit', (store) => put(store, ['a', 40], ['b', 40]), ['a', 'b']],
  ['evicts the first', (store) => put(store, ['a', 40], ['b', 40], ['c', 40]), ['b', 'c']],
  [
    'evicts the least recently used',
    (store) => {
      store.put(response('a', 40))
      store.put(response('b', 40))
      store.get('a', 'me')
      store.put(response('c', 40))
    },
    ['a', 'c'],
  ],
  [
    'a replaced response counts once',
    (store) => {
      store.put(response('a', 40))
      store.put(response('b', 40))
      store.put(response('b', 50))
    },
    ['a', 'b'],
  ],
  [
    'a deleted response does not count',
    (store) => {
      store.put(response('a', 90))
      store.delete('a', 'me')
      store.put(response('b', 50))
      store.put(response('c', 50))
    },
    ['b', 'c'],
  ],
  ['a response above the limit evicts all others', (store) => put(store, ['a', 10], ['b', 500]), ['b']],
]
for (const [name, run, left] of cases)
  test(`memory store: limit of 100 characters: ${name}`, () => {
    const store = memoryResponseStore(100)
    run(store)
    assert.deepEqual(
      ['a', 'b', 'c'].filter((id) => store.get(id, 'me')),
      left,
    )
  })
