import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lines, loaded } from '../../test/support/config.ts'
import { NO_RULE } from '../../test/support/guard-rule.ts'

const withRule = (rule: string) => ({ env: {}, yaml: `guards:\n  pii: ${rule}\n` })

test('guards: rules are read in their order, with defaults', () => {
  const { guards } = loaded({
    env: {},
    yaml: `guards:
  secrets: { find: [ apiKey ], action: block, message: Take it out. }
  staff: { words: [ Nightjar ], patterns: [ "EMP-\\\\d{6}" ], action: mask, label: STAFF, exceptTeams: [ legal ] }
`,
  }).config
  assert.deepEqual(guards, [
    { ...NO_RULE, name: 'secrets', kinds: ['apiKey'], action: 'block', message: 'Take it out.' },
    {
      ...NO_RULE,
      name: 'staff',
      words: ['Nightjar'],
      patterns: ['EMP-\\d{6}'],
      action: 'mask',
      label: 'STAFF',
      exceptTeams: ['legal'],
    },
  ])
  assert.equal(loaded({ env: {}, yaml: 'strategy: priority\n' }).config.guards, undefined)
})

test('guards: a rule that finds nothing, or that would be slow, is refused', () => {
  for (const [rule, problem] of [
    ['{ action: mask }', /find, patterns, words and media/],
    ['{ find: [ mail ], action: mask }', /email/],
    ['{ find: [ email ] }', /action/],
    ['{ media: true, action: mask }', /media cannot be masked/],
    ['{ patterns: [ "a+" ], action: block }', /a limit such as \{1,64\}/],
    ['{ find: [ email ], action: mask, label: e-mail }', /capital letters/],
  ] as const)
    assert.match(lines(withRule(rule)).join('\n'), problem, rule)
})
