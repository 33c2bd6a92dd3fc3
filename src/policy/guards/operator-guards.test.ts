import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { NO_RULE } from '../../../test/support/guard-rule.ts'
import { ANONYMOUS } from '../../core/accounts.ts'
import { fail } from '../../core/failure.ts'
import type { GuardRule } from '../../core/guard.ts'
import { type RuleVerdict, verdictHeader } from '../../core/guard-verdict.ts'
import { operatorGuards } from './operator-guards.ts'
import type { ServiceVerdict } from './verdict.ts'

const RULE: GuardRule = { ...NO_RULE, name: 'pii', kinds: ['email'], action: 'mask' }
const SERVICE: GuardRule = { ...RULE, name: 'shield', kinds: [], action: 'block' }

/** What rules and a service do with one text. */
const checked = async (
  text: string,
  rules: readonly GuardRule[],
  answer: (text: string) => ServiceVerdict = () => ({ verdict: null }),
  media: readonly string[] = [],
) => {
  const notes: RuleVerdict[] = []
  const shown: string[] = []
  const choose = operatorGuards({
    rules: () => rules,
    digest: (name) => createHash('sha256').update(name).digest(),
    fingerprint: (name) => name,
    turn: (run) => run(),
    now: () => 0,
    names: { team: () => true, route: () => true },
    services: (rule) =>
      rule.name !== 'shield'
        ? null
        : async (texts) => {
            shown.push(...texts.map((one) => one.text))
            return answer(texts[0]?.text ?? '')
          },
  })
  const [guard] = choose({
    id: 'req_a',
    client: ANONYMOUS,
    style: 'chat',
    plan: { model: 'm', candidates: [] } as never,
    headers: () => undefined,
    note: (verdict) => notes.push(verdict),
  })
  assert.ok(guard)
  const verdict = await guard.request?.(
    () => [{ text, role: 'user', kind: 'text' }],
    () => media,
  )
  const replaced = verdict && 'replace' in verdict ? (verdict.replace.get(text) ?? text) : text
  const restored = (answerText: string) =>
    (guard.events?.().push({ type: 'delta', text: answerText }) ?? [])
      .map((event) => (event.type === 'delta' ? event.text : ''))
      .join('')
  return { verdict, replaced, notes, shown, restored }
}

test('guards: of several rules the strictest decides, and each rule that has read the text states what it found', async () => {
  const mail: GuardRule = { ...RULE, name: 'log', action: 'log' }
  const { replaced, notes } = await checked('to a@b.example and c@d.example', [
    mail,
    { ...mail, name: 'flag', action: 'flag' },
    RULE,
  ])
  assert.match(replaced, /^to \[EMAIL_\w{6}\] and \[EMAIL_\w{6}\]$/)
  assert.deepEqual(
    notes.map(({ guard, action, counts }) => [guard, action, counts]),
    [
      ['pii', 'mask', { EMAIL: 2 }],
      ['flag', 'flag', { EMAIL: 2 }],
      ['log', 'log', { EMAIL: 2 }],
    ],
  )
  assert.equal(verdictHeader(notes), 'pii=mask:2, flag=flag:2')
  const blocked = await checked('to a@b.example', [mail, RULE, { ...RULE, name: 'no', action: 'block' }])
  assert.ok(blocked.verdict && 'refuse' in blocked.verdict)
  assert.deepEqual(
    blocked.notes.map(({ guard, action }) => [guard, action]),
    [['no', 'block']],
  )
})

test('guards: a flag changes nothing', async () => {
  const { verdict, notes } = await checked('to a@b.example', [{ ...RULE, action: 'flag' }])
  assert.equal(verdict, null)
  assert.equal(notes.length, 1)
})

test('guards: a service receives masked texts, and its spans are restored with the masks that they cut', async () => {
  const text = 'Ann Lee <ann@b.example> wrote'
  const { replaced, shown, restored } = await checked(text, [RULE, SERVICE], (masked) => ({
    verdict: { guard: 'shield', phase: 'request', action: 'mask', counts: { NAME: 1 }, ms: 5 },
    spans: [{ text: masked, start: 0, end: 12, label: 'NAME' }],
  }))
  assert.ok(shown[0]?.startsWith('Ann Lee <[EMAIL_') && !shown[0].includes('ann@'))
  assert.match(replaced, /^\[NAME_\w{6}\]> wrote$/)
  assert.equal(restored(`${replaced} `), 'Ann Lee <ann@b.example> wrote ')
})

test('guards: a service replaces a text for good, or refuses the request', async () => {
  const other = await checked('plain', [SERVICE], () => ({ verdict: null, replace: new Map([['plain', 'other']]) }))
  assert.equal(other.replaced, 'other')
  const refuse = fail('guardrail_blocked', 'No.')
  const { verdict, notes } = await checked('plain', [SERVICE], () => ({
    verdict: { guard: 'shield', phase: 'request', action: 'block', counts: {}, ms: 1 },
    refuse,
  }))
  assert.deepEqual(verdict, { refuse })
  assert.equal(notes.length, 1)
})

test('guards: no service receives a request that a rule refuses', async () => {
  const { shown } = await checked('a@b.example', [{ ...RULE, action: 'block' }, SERVICE])
  assert.deepEqual(shown, [])
})

test('guards: media are blocked or flagged, whatever they contain', async () => {
  const found = (action: GuardRule['action']) =>
    checked('hello', [{ ...NO_RULE, name: 'files', media: true, action }], undefined, ['IMAGE', 'FILE', 'IMAGE'])
  const blocked = await found('block')
  assert.ok(blocked.verdict && 'refuse' in blocked.verdict)
  assert.match(blocked.verdict.refuse.message, /^Blocked by the rule "files", which found: media\./)
  assert.deepEqual(blocked.notes[0]?.counts, { IMAGE: 2, FILE: 1 })
  const flagged = await found('flag')
  assert.equal(flagged.verdict, null)
  assert.deepEqual(flagged.notes[0]?.counts, { IMAGE: 2, FILE: 1 })
  const none = await checked('hello', [{ ...NO_RULE, name: 'files', media: true, action: 'block' }])
  assert.equal(none.verdict, null)
})
