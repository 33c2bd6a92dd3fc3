/** Headers that carry a key are in one list, so that no place forgets one: not shown, not kept, not forwarded. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CREDENTIAL_HEADERS, GATEWAY_CREDENTIAL_HEADERS } from '../../src/core/credential-headers.ts'
import { KEY_HEADERS } from '../../src/protocols/index.ts'
import { headersFrom, headersOf, MASKED_HEADER } from '../../src/usage/bodies/kept-headers.ts'
import { lines } from '../support/config.ts'

for (const name of ['authorization', ...KEY_HEADERS])
  test(`credential headers: the gateway reads keys from ${name}, which the list has`, () =>
    assert.ok(GATEWAY_CREDENTIAL_HEADERS.includes(name)))

for (const name of CREDENTIAL_HEADERS)
  test(`stored credentials: the value of ${name} is masked where headers are kept`, () => {
    assert.deepEqual(
      headersFrom((asked) => (asked === name ? 'secret' : undefined)),
      { [name]: MASKED_HEADER },
    )
    assert.deepEqual(headersOf({ [name.toUpperCase()]: 'secret' }), { [name]: MASKED_HEADER })
  })

for (const name of GATEWAY_CREDENTIAL_HEADERS)
  test(`credentials for a provider: ${name} of a client cannot be forwarded`, () => {
    const yaml = `providers:\n  openai:\n    keys: [ k ]\n    forwardHeaders: [ ${name.toUpperCase()} ]\n`
    assert.match(lines({ env: {}, yaml }).join('\n'), new RegExp(`found the header "${name}"`))
  })
