/**
 * How many values the five finders of `pii` and `secrets` find in prose, code, JSON, logs and tables, and what they find in sources that
 * have none. Values are made by the formats of their issuers: ISO/IEC 7812 and 13616, ITU-T E.164 with national formats as in
 * libphonenumber's metadata, and prefixes of keys as in the rules of gitleaks.
 */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import type { FinderKind } from '../../../core/finder-kinds.ts'
import { finderOf } from './find-texts.ts'

const KINDS = ['email', 'phone', 'card', 'iban', 'apiKey'] as const satisfies readonly FinderKind[]
const find = finderOf({ kinds: KINDS, patterns: [], words: [] })

/** The same numbers in every run (Lehmer, of the C++ standard's `minstd_rand`). */
const seeded = (seed: number) => {
  let state = seed
  const below = (most: number): number => {
    state = (state * 48_271) % 2_147_483_647
    return state % most
  }
  const among = <T>(list: readonly T[]): T => list[below(list.length)] as T
  const text = (chars: string, length: number): string =>
    Array.from({ length }, () => chars[below(chars.length)]).join('')
  return { below, among, text }
}
type Draw = ReturnType<typeof seeded>

const DIGITS = '0123456789'
const LOWER = 'abcdefghijklmnopqrstuvwxyz'
const UPPER = LOWER.toUpperCase()
const ALL = DIGITS + LOWER + UPPER

/** The same text in a pattern: `#` is a digit, `9` one from 1 on, and `A` a capital. */
const filled = ({ text }: Draw, pattern: string): string =>
  pattern.replace(/[#9A]/g, (place) => text(place === '#' ? DIGITS : place === '9' ? DIGITS.slice(1) : UPPER, 1))

const luhnDigit = (digits: string): string => {
  const sum = [...digits].reverse().reduce((total, digit, at) => {
    const doubled = at % 2 === 0 ? Number(digit) * 2 : Number(digit)
    return total + (doubled > 9 ? doubled - 9 : doubled)
  }, 0)
  return `${(10 - (sum % 10)) % 10}`
}

/** Prefix and length by brand: Visa, Mastercard (both ranges), American Express, Discover, JCB, Diners Club, UnionPay. */
const CARDS = ['4:16', '4:13', '51:16', '55:16', '2221:16', '2720:16', '34:15', '37:15', '6011:16', '65:16', '3528:16']
  .concat(['3589:16', '36:14', '62:16', '62:19'])
  .map((entry) => entry.split(':'))

const card = (draw: Draw): string => {
  const [prefix = '', length = '16'] = draw.among(CARDS)
  const body = prefix + draw.text(DIGITS, Number(length) - prefix.length - 1)
  const number = body + luhnDigit(body)
  const gap = draw.among(['', '', ' ', '-'])
  const groups = number.length === 15 || number.length === 14 ? /^(\d{4})(\d{6})(\d+)$/ : /\d{4}(?=\d)/g
  return number.replace(groups, (...parts) =>
    number.length < 16 && number.length !== 13 ? parts.slice(1, 4).join(gap) : `${parts[0]}${gap}`,
  )
}

/** The national part by country, as the registry of ISO 13616 states its structure. */
const IBANS = ['DE:##################', 'FR:#######################', 'ES:####################', 'NL:AAAA##########']
  .concat(['GB:AAAA##############', 'IT:A######################', 'CH:#################', 'AT:################'])
  .concat([
    'PL:########################',
    'BE:############',
    'SE:####################',
    'NO:###########',
    'MT:AAAA#####',
  ])

const iban = (draw: Draw): string => {
  const [country = '', pattern = ''] = draw.among(IBANS).split(':')
  const national = filled(draw, pattern).padEnd(country === 'MT' ? 27 : 0, '0')
  const numeric = `${national}${country}00`.replace(/[A-Z]/g, (letter) => `${Number.parseInt(letter, 36)}`)
  const check = `${98n - (BigInt(numeric) % 97n)}`.padStart(2, '0')
  const number = `${country}${check}${national}`
  const spaced = draw.among([number, number.replace(/.{4}(?=.)/g, '$& ')])
  return draw.below(10) === 0 ? spaced.toLowerCase() : spaced
}

/** Not all of these are found: in the last ten some look like any other number. */
const PHONES = [
  '+1 (2##) 555-01##',
  '+1-3##-555-01##',
  '+12##55501##',
  '(4##) 555-01##',
  '6##-555-01##',
  '7##.555.01##',
]
  .concat([
    '+44 20 7946 0###',
    '+44 7700 900###',
    '020 7946 0###',
    '07700 900###',
    '+49 30 #######',
    '+49 151 9#######',
  ])
  .concat(['030 9######', '0151/9#######', '0151 9#######', '+33 1 ## ## ## ##', '01 9# ## ## ##', '06 9# ## ## ##'])
  .concat(['+34 6## ### ###', '+39 02 9### ####', '+31 6 9#######', '06-9#######', '+41 44 9## ## ##', '044 9## ## ##'])
  .concat([
    '+81 3-9###-####',
    '03-9###-####',
    '+91 9####-#####',
    '+55 11 9####-####',
    '+61 4## ### ###',
    '0049 30 9######',
  ])
  .concat(['+48 5## ### ###', '+46 70-9## ## ##', '+86 138 #### ####', '+82 10-9###-####', '+7 495 ###-##-##'])
  .concat(['070-### ## ##', '9# ## ## ##', '8 (495) ###-##-##', '09 ### ####', '(11) 9####-####', '04## ### ###'])
  .concat(['9#### #####', '079 ### ## ##', '010-9###-####', '91 ### ## ##'])

const phone = (draw: Draw): string => filled(draw, draw.among(PHONES))

const FIRST = [
  'ana',
  'Jürgen',
  'o.brien',
  'li',
  'MARIE',
  'j',
  'dev-ops',
  "d'arcy",
  'x_y',
  'привет',
  'sales+eu',
  'no.reply',
]
const HOSTS = ['example.com', 'mail.example.co.uk', 'corp.example', 'müller.example', 'xn--mller-kva.example'].concat([
  'sub.a-b.example.org',
  'EXAMPLE.NET',
  'example.museum',
  'a.io',
])

const email = (draw: Draw): string => {
  const at = draw.below(40) === 0 ? '%40' : '@'
  return `${draw.among(FIRST)}${draw.among(['', `.${draw.text(LOWER, 6)}`, `${draw.below(1_000)}`])}${at}${draw.among(HOSTS)}`
}

/** Prefix, length and characters of the rest, as issuers give keys out. */
const KEYS: readonly (readonly [prefix: string, length: number, chars?: string])[] = [
  ['sk-proj-', 120, `${ALL}-_`],
  ['sk-', 48],
  ['sk-ant-api03-', 95, `${ALL}-_`],
  ['sk-or-v1-', 64, '0123456789abcdef'],
  ['gsk_', 52],
  ['xai-', 80],
  ['pplx-', 48],
  ['hf_', 34, LOWER + UPPER],
  ['r8_', 37],
  ['AIza', 35, `${ALL}-_`],
  ['AKIA', 16, `${UPPER}234567`],
  ['ghp_', 36],
  ['gho_', 36],
  ['ghu_', 36],
  ['ghs_', 36],
  ['ghr_', 36],
  ['github_pat_', 82, `${ALL}_`],
  ['glpat-', 20, `${ALL}-_`],
  ['gldt-', 20, `${ALL}-_`],
  ['xoxb-', 51, `${DIGITS}-${ALL}`],
  ['xapp-1-', 80, `${ALL}-`],
  ['sk_live_', 24],
  ['rk_live_', 24],
  ['whsec_', 32],
  ['npm_', 36],
  ['pypi-AgEIcHlwaS5vcmc', 70, `${ALL}-_`],
  ['SG.', 66, `${ALL}-_`],
  ['dop_v1_', 64, '0123456789abcdef'],
  ['shpat_', 32, '0123456789abcdef'],
  ['hvs.', 95, `${ALL}-_`],
  ['dckr_pat_', 27, `${ALL}-_`],
  ['lin_api_', 40],
  ['ntn_', 46],
  ['figd_', 40, `${ALL}-_`],
  ['ATATT3', 186, `${ALL}-_=`],
  ['PMAK-', 59, '0123456789abcdef-'],
  ['dapi', 32, '0123456789abcdef'],
  ['glsa_', 41, ALL],
  ['sntrys_', 120],
  ['AGE-SECRET-KEY-1', 58, 'QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L'],
]

const apiKey = (draw: Draw): string => {
  const [prefix, length, chars = ALL] = draw.among(KEYS)
  return prefix + draw.text(chars, length - 1) + draw.text(ALL, 1)
}

const MADE: { readonly [kind in (typeof KINDS)[number]]: (draw: Draw) => string } = { email, phone, card, iban, apiKey }

/** Texts around a value. */
const AROUND: readonly string[] = [
  'Please send it to VALUE before Friday.',
  'VALUE',
  '(VALUE)',
  'Hi, my number is VALUE, thanks!',
  '{"customer":{"value":"VALUE","id":17}}',
  '{\n  "note": "see VALUE"\n}',
  "const value = 'VALUE' // from the ticket",
  'value: "VALUE"\nother: 12',
  '| name | VALUE | 2026-11-28 |',
  '2026-11-28T10:00:00.123Z INFO [worker-3] user=VALUE status=200 in 12 ms',
  'curl -d "value=VALUE" https://api.example.com/v1/items',
  '<td>VALUE</td>',
  'a;b;VALUE;c',
  'Kontakt: VALUE.\nMit freundlichen Grüßen',
  'お客様の番号はVALUEです。',
  '> On Monday you wrote "VALUE".',
]

const TEXTS = 20_000
/** Of the texts, those with a value: a tenth. */
const EVERY = 10

describe('quality of finders', () => {
  const draw = seeded(7)
  const missed = new Map<FinderKind, string[]>(KINDS.map((kind) => [kind, []]))
  const counts = new Map<FinderKind, number>(KINDS.map((kind) => [kind, 0]))
  const wrong: string[] = []
  for (let at = 0; at < TEXTS; at++) {
    const around = draw.among(AROUND)
    if (at % EVERY !== 0) {
      const plain = around.replace('VALUE', draw.among(['the report', 'item 4711', 'v1.24.3', '12,50 EUR', 'Nr. 88-B']))
      if (find(plain).length > 0) wrong.push(plain)
      continue
    }
    const kind = draw.among(KINDS)
    const value = MADE[kind](draw)
    counts.set(kind, (counts.get(kind) ?? 0) + 1)
    const text = around.replace('VALUE', () => value)
    const start = text.indexOf(value)
    const end = start + value.length
    // Whatever kind it is taken for: nothing of it is left.
    const isFound = find(text).some((span) => span.start <= start && span.end >= end)
    if (!isFound) missed.get(kind)?.push(text)
  }

  for (const kind of KINDS)
    test(`${kind}: at least ${kind === 'phone' ? 90 : 98} % are found whole`, (t) => {
      const count = counts.get(kind) ?? 0
      const lost = missed.get(kind) ?? []
      t.diagnostic(`${count - lost.length} of ${count}`)
      assert.ok(count > 300)
      assert.ok(lost.length <= count * (kind === 'phone' ? 0.1 : 0.02), lost.slice(0, 40).join('\n'))
    })

  test('texts without a value have none', () => assert.deepEqual(wrong.slice(0, 10), []))

  test('at most one in 100 KB of source is found where none is', (t) => {
    const root = join(import.meta.dirname, '..', '..', '..', '..', 'node_modules')
    const files = [
      'openai/src/**/*.ts',
      'kysely/dist/**/*.js',
      '@anthropic-ai/sdk/src/**/*.ts',
      'pg/lib/**/*.js',
    ].flatMap((glob) => globSync(glob, { cwd: root }))
    let size = 0
    const found: string[] = []
    for (const file of files) {
      const text = readFileSync(join(root, file), 'utf8')
      size += text.length
      for (const { kind, start, end } of find(text)) found.push(`${kind} ${text.slice(start, end)}`)
    }
    t.diagnostic(`${found.length} in ${Math.round(size / 1_000)} KB`)
    assert.ok(size > 5_000_000)
    assert.ok(found.length <= size / 100_000, found.join('\n'))
  })
})
