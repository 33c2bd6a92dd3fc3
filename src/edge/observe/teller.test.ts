import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { News } from '../../core/exchange.ts'
import { teller } from './teller.ts'

test('teller: one who stumbles keeps the news from nobody', () => {
  const heard: string[] = []
  const bug = new Error('a bug')
  const hears = (name: string) => (news: News) => {
    heard.push(`${name} ${news.event}`)
    if (name === 'second') throw bug
  }
  const tell = teller([hears('first'), hears('second'), hears('third')], (error) => {
    assert.equal(error, bug)
    heard.push('trouble')
  })
  tell({ event: 'error', error: 'x' })
  assert.deepEqual(heard, ['first error', 'second error', 'trouble', 'third error'])
})
