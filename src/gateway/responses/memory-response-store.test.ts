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

test('shelf: what was put is there, for its owner only', () => {
  const shelf = memoryResponseStore(100)
  shelf.put(response('a'))
  assert.deepEqual(shelf.get('a', 'me'), response('a'))
  assert.equal(shelf.get('a', 'you'), undefined)
  assert.equal(shelf.findByItem('item_a', 'me')?.id, 'a')
  assert.equal(shelf.findByItem('item_a', 'you'), undefined)
  assert.equal(shelf.delete('a', 'you'), false)
  assert.equal(shelf.delete('a', 'me'), true)
  assert.equal(shelf.delete('a', 'me'), false)
  assert.equal(shelf.findByItem('item_a', 'me'), undefined)
})

const put = (shelf: ReturnType<typeof memoryResponseStore>, ...sizes: readonly (readonly [string, number])[]) => {
  for (const [id, size] of sizes) shelf.put(response(id, size))
}

const cases: readonly (readonly [
  string,
  (shelf: ReturnType<typeof memoryResponseStore>) => void,
  readonly string[],
])[] = [
  ['all fit', (shelf) => put(shelf, ['a', 40], ['b', 40]), ['a', 'b']],
  ['the first makes room', (shelf) => put(shelf, ['a', 40], ['b', 40], ['c', 40]), ['b', 'c']],
  [
    'the longest untouched makes room',
    (shelf) => {
      shelf.put(response('a', 40))
      shelf.put(response('b', 40))
      shelf.get('a', 'me')
      shelf.put(response('c', 40))
    },
    ['a', 'c'],
  ],
  [
    'put again, it counts once',
    (shelf) => {
      shelf.put(response('a', 40))
      shelf.put(response('b', 40))
      shelf.put(response('b', 50))
    },
    ['a', 'b'],
  ],
  [
    'what is deleted counts no more',
    (shelf) => {
      shelf.put(response('a', 90))
      shelf.delete('a', 'me')
      shelf.put(response('b', 50))
      shelf.put(response('c', 50))
    },
    ['b', 'c'],
  ],
  ['what is larger than all stays alone', (shelf) => put(shelf, ['a', 10], ['b', 500]), ['b']],
]
for (const [name, run, left] of cases)
  test(`shelf: of a hundred characters: ${name}`, () => {
    const shelf = memoryResponseStore(100)
    run(shelf)
    assert.deepEqual(
      ['a', 'b', 'c'].filter((id) => shelf.get(id, 'me')),
      left,
    )
  })
