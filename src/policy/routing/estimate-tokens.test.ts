import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recordingsOf, skipWithoutRecordings } from '../../../test/support/recordings.ts'
import { type ChatRequest, fold, type Message, type Part } from '../../core/chat.ts'
import { isObject } from '../../core/json.ts'
import { protocols } from '../../protocols/index.ts'
import { estimateText, estimateTokens } from './estimate-tokens.ts'

/** Article 1 of the Universal Declaration of Human Rights, code and data, with the tokens of o200k by gpt-tokenizer. */
const texts = [
  [
    'English',
    33,
    'All human beings are born free and equal in dignity and rights. They are endowed with reason and conscience and should act towards one another in a spirit of brotherhood.',
  ],
  [
    'German',
    38,
    'Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft und Gewissen begabt und sollen einander im Geist der Brüderlichkeit begegnen.',
  ],
  [
    'French',
    41,
    'Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués de raison et de conscience et doivent agir les uns envers les autres dans un esprit de fraternité.',
  ],
  [
    'Spanish',
    38,
    'Todos los seres humanos nacen libres e iguales en dignidad y derechos y, dotados como están de razón y conciencia, deben comportarse fraternalmente los unos con los otros.',
  ],
  [
    'Russian',
    41,
    'Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом и совестью и должны поступать в отношении друг друга в духе братства.',
  ],
  [
    'Greek',
    71,
    'Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα. Είναι προικισμένοι με λογική και συνείδηση, και οφείλουν να συμπεριφέρονται μεταξύ τους με πνεύμα αδελφοσύνης.',
  ],
  ['Chinese', 37, '人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心,并应以兄弟关系的精神相对待。'],
  [
    'Japanese',
    71,
    'すべての人間は、生れながらにして自由であり、かつ、尊厳と権利とについて平等である。人間は、理性と良心とを授けられており、互いに同胞の精神をもって行動しなければならない。',
  ],
  [
    'Korean',
    51,
    '모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 천부적으로 이성과 양심을 부여받았으며 서로 형제애의 정신으로 행동하여야 한다.',
  ],
  [
    'Arabic',
    44,
    'يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق. وقد وهبوا عقلاً وضميرًا وعليهم أن يعامل بعضهم بعضًا بروح الإخاء.',
  ],
  [
    'Hindi',
    54,
    'सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है। उन्हें बुद्धि और अन्तरात्मा की देन प्राप्त है और परस्पर उन्हें भाईचारे के भाव से बर्ताव करना चाहिए।',
  ],
  [
    'code',
    57,
    'const total = items\n  .filter(({ price }) => price > 0)\n  .reduce((sum, { price, count }) => sum + price * count, 0)\nif (total > limit.amount) throw new Error(`over by \u0024{total - limit.amount}`)\n',
  ],
  [
    'JSON',
    48,
    '{"type":"object","properties":{"city":{"type":"string","description":"Name of the city"},"days":{"type":"integer","minimum":1,"maximum":14}},"required":["city","days"],"additionalProperties":false}',
  ],
  [
    'a table',
    52,
    '| id | name | amount |\n|---:|------|-------:|\n| 1 | Ada | 12.50 |\n| 2 | Grace | 1,999.00 |\n| 3 | Linus | 0.01 |\n',
  ],
  ['signs and emoji', 23, 'Fixed it 🎉 — the “quoted” word… 你好, мир! 100 % sure? ✅\n'],
] as const

for (const [name, tokens, text] of texts)
  test(`estimate: ${name} within 40 %`, () => {
    const estimated = estimateText(text)
    assert.ok(Math.abs(estimated - tokens) <= 0.4 * tokens, `${estimated} for ${tokens}`)
  })

const requestWith = (...content: readonly Part[]): ChatRequest => ({
  model: 'm',
  stream: false,
  messages: [{ role: 'user', at: 'messages[0]', content }],
  tools: [],
  settings: {},
  extras: [],
})
const text = (words: string): Part => ({ type: 'text', at: '', text: words })

test('estimate: is linear in the text, an integer, and at least 1', () => {
  const words = 'The quick brown fox, 12 times. '
  const once = estimateTokens(requestWith(text(words)))
  const often = estimateTokens(requestWith(text(words.repeat(1_000))))
  assert.ok(Number.isInteger(once) && once > 0)
  assert.ok(Math.abs(often / 1_000 - estimateText(words)) < 0.1, `${often}`)
  assert.ok(estimateTokens({ ...requestWith(), messages: [] }) > 0)
})

const more: readonly (readonly [string, ChatRequest])[] = [
  ['an image', requestWith({ type: 'image', at: '', source: { kind: 'url', url: 'https://x.example/y.png' } })],
  [
    'a document',
    requestWith({ type: 'file', at: '', source: { kind: 'data', mediaType: 'application/pdf', data: 'AAAA' } }),
  ],
  [
    'a text file',
    requestWith({ type: 'file', at: '', source: { kind: 'data', mediaType: 'text/plain', data: 'QUFB' } }),
  ],
  ['a tool call', requestWith({ type: 'tool-call', at: '', id: 'c', name: 'look', arguments: '{"at":"it"}' })],
  ['reasoning', requestWith({ type: 'reasoning', at: '', text: 'Let me see.' })],
  [
    'a foreign block',
    requestWith({ type: 'foreign', at: '', protocol: 'anthropic-messages', raw: { type: 'search' } }),
  ],
  [
    'a tool',
    {
      ...requestWith(),
      tools: [{ kind: 'function', at: '', name: 'look', description: 'Looks.', parameters: { type: 'object' } }],
    },
  ],
  [
    'a tool result',
    {
      ...requestWith(),
      messages: [...requestWith().messages, { role: 'tool', at: '', callId: 'c', content: [] } satisfies Message],
    },
  ],
]
for (const [name, request] of more)
  test(`estimate: ${name} counts`, () => assert.ok(estimateTokens(request) > estimateTokens(requestWith())))

/** The first and last characters of each class, and the weight of each. */
const characters: readonly (readonly [string, string, number])[] = [
  ['letters', 'azAZ', 0.23],
  ['punctuation next to the letters', '`{@[/:', 0.5],
  ['digits', '09', 0.4],
  ['whitespace', ' \t\n\r', 0.1],
  ['control characters', '\b\u000e\u001f', 0.5],
  ['the last ASCII character', '\u007f', 0.5],
  ['letters of other alphabets', '\u0080\u1fff', 0.4],
  ['signs', '\u2000\u2e7f', 1],
  ['wide characters', '\u2e80\ud7ff\uf900\ufaff\uff00\uffff', 0.85],
  ['characters between the wide ranges', '\ud800\uf8ff\ufb00\ufeff', 1],
]
for (const [name, letters, weight] of characters)
  test(`estimate: ${name} weigh ${weight}`, () => {
    for (const letter of letters) assert.ok(Math.abs(estimateText(letter) - weight) < 1e-9, JSON.stringify(letter))
  })

/** Tokens of a request above an empty one (7: framing of 3, one message of 4). */
const weights: readonly (readonly [string, ChatRequest, number])[] = [
  ['an empty request', requestWith(), 0],
  ['ten one-letter words', requestWith(text('a a a a a a a a a a ')), 4],
  ['a refusal', requestWith({ type: 'refusal', at: '', text: '0'.repeat(10) }), 4],
  ['reasoning', requestWith({ type: 'reasoning', at: '', text: '0'.repeat(10) }), 4],
  ['an image', requestWith({ type: 'image', at: '', source: { kind: 'url', url: 'x' } }), 1_500],
  ['audio', requestWith({ type: 'audio', at: '', data: 'A', format: 'wav' }), 1_500],
  [
    'a document',
    requestWith({ type: 'file', at: '', source: { kind: 'data', mediaType: 'application/text/', data: 'A' } }),
    1_500,
  ],
  ['a document URL', requestWith({ type: 'file', at: '', source: { kind: 'url', url: 'text/' } }), 1_500],
  // 1,000 characters of base64 are 750 bytes.
  [
    'a text file',
    requestWith({ type: 'file', at: '', source: { kind: 'data', mediaType: 'text/plain', data: 'A'.repeat(1_000) } }),
    173,
  ],
  ['a tool call', requestWith({ type: 'tool-call', at: '', id: 'c', name: '00000', arguments: '0'.repeat(10) }), 14],
  ['a part of another format', requestWith({ type: 'foreign', at: '', protocol: 'openai-chat', raw: { a: 0 } }), 3],
  ['a second message', { ...requestWith(), messages: [...requestWith().messages, ...requestWith().messages] }, 4],
  ['a tool result', { ...requestWith(), messages: [{ role: 'tool', at: '', callId: 'c', content: [] }] }, 8],
  [
    'a tool',
    {
      ...requestWith(),
      tools: [{ kind: 'function', at: '', name: '00000', description: '0'.repeat(10), parameters: { a: 0 } }],
    },
    17,
  ],
  [
    'a tool without description and parameters',
    { ...requestWith(), tools: [{ kind: 'function', at: '', name: '00000' }] },
    10,
  ],
  ['a custom tool', { ...requestWith(), tools: [{ kind: 'custom', at: '', name: '00000', format: { a: 0 } }] }, 13],
  [
    'a vendor’s tool',
    { ...requestWith(), tools: [{ kind: 'foreign', at: '', protocol: 'openai-chat', raw: { a: 0 } }] },
    11,
  ],
]
for (const [name, request, tokens] of weights)
  test(`estimate: ${name} adds ${tokens} tokens`, () => {
    const found = estimateTokens(request) - 7
    assert.ok(Math.abs(found - tokens) <= 1, `${found}`)
  })

/** Whether the request is plain text: tokens that a vendor adds for tools, thinking or search are not in the request. */
const plain = ({ messages, tools, settings, extras }: ChatRequest): boolean =>
  tools.length === 0 &&
  extras.every(({ essential, name }) => !essential && name !== 'thinking') &&
  !settings.format &&
  !settings.thinkingBudget &&
  messages.every(({ content }) => content.every(({ type }) => type === 'text'))

/** The estimate divided by the vendor's count, for each recorded plain request of at least `least` tokens. */
const ratios = (api: 'messages' | 'chat', provider: string, least: number): number[] => {
  const protocol = protocols[api === 'messages' ? 'anthropic-messages' : 'openai-chat']
  return recordingsOf(api)
    .filter((one) => one.provider === provider && !one.chunks && !one.trimmed && (one.status ?? 200) < 400)
    .flatMap(({ request, response }) => {
      const decoded = isObject(request) ? protocol.decodeRequest(request) : undefined
      const counted = fold(protocol.decodeAnswer(response)).usage?.input ?? 0
      return decoded?.ok && plain(decoded.value) && counted >= least ? [estimateTokens(decoded.value) / counted] : []
    })
    .sort((one, other) => one - other)
}

for (const [api, provider] of [
  ['messages', 'anthropic'],
  ['chat', 'openai'],
] as const)
  test(`estimate: close to the count of ${provider} for recorded requests`, { skip: skipWithoutRecordings }, () => {
    const found = ratios(api, provider, 20)
    assert.ok(found.length >= 10, `${found.length} requests`)
    const half = found[Math.floor(found.length / 2)] ?? 0
    assert.ok(half > 0.8 && half < 1.25, `the median: ${half}`)
    assert.ok((found[0] ?? 0) > 0.55 && (found.at(-1) ?? 9) < 1.45, `${found[0]} to ${found.at(-1)} of ${found.length}`)
  })

test('estimate: the sample of a long request is close to the whole', () => {
  const words = texts.map(([, , text]) => text).join(' ')
  const many = words.repeat(Math.ceil(3_000_000 / words.length))
  const part = (text: string): Part => ({ type: 'text', at: 'x', text })
  const estimate = (content: Part[]): number =>
    estimateTokens({
      model: 'm',
      stream: false,
      tools: [],
      settings: {},
      extras: [],
      messages: [{ role: 'user', at: 'x', content }],
    })
  const whole = estimateText(many)
  assert.ok(Math.abs(estimate([part(many)]) / whole - 1) < 0.05)
  const pieces = Array.from({ length: 1_000 }, (_, at) => part(many.slice(at * 3_000, (at + 1) * 3_000)))
  assert.ok(Math.abs(estimate(pieces) / whole - 1) < 0.05)
})
