import assert from 'node:assert/strict'
import { test } from 'node:test'
import { boundedMessage, quotedName, slackText } from './quoted-name.ts'

for (const [name, written, slack] of [
  ['a mention of all', '<!channel> <!here|x> <@U123>', '`&lt;!channel&gt; &lt;!here|x&gt; &lt;@U123&gt;`'],
  ['a link with a label', '<https://evil.example|Sign in>', '`&lt;https://evil.example|Sign in&gt;`'],
  ['a bare address', 'https://evil.example *now* @channel', '`https://evil.example *now* @channel`'],
  ['code that ends early', 'a` <!channel> `b', "`a' &lt;!channel&gt; 'b`"],
  ['a quote that ends early', 'a" <!channel> "b', "`a' &lt;!channel&gt; 'b`"],
  ['escaped text', '&lt;!channel&gt;', '`&amp;lt;!channel&amp;gt;`'],
] as const)
  test(`alert names: Slack shows ${name} as plain text`, () => {
    assert.equal(slackText(quotedName(written)), slack)
  })

test('alert names: text that is not quoted is escaped', () => {
  assert.equal(slackText('a & b < c'), 'a &amp; b &lt; c')
})

test('alert names: a message has one line of at most 1,000 characters', () => {
  assert.equal(boundedMessage('a\nb'), 'a b')
  assert.equal(boundedMessage('x'.repeat(2_000)).length, 1_000)
  assert.equal(boundedMessage('x'.repeat(1_000)), 'x'.repeat(1_000))
})
