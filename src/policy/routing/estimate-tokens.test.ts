import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recordingsOf, skipWithoutRecordings } from '../../../test/support/recordings.ts'
import { type ChatRequest, fold, type Message, type Part } from '../../core/chat.ts'
import { isObject } from '../../core/json.ts'
import { protocols } from '../../protocols/index.ts'
import { estimateText, estimateTokens } from './estimate-tokens.ts'

/** Article 1 of the Universal Declaration of Human Rights, code and data: the tokens are o200k's, counted with gpt-tokenizer. */
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

const asking = (...content: readonly Part[]): ChatRequest => ({
  model: 'm',
  stream: false,
  messages: [{ role: 'user', at: 'messages[0]', content }],
  tools: [],
  settings: {},
  extras: [],
})
const text = (words: string): Part => ({ type: 'text', at: '', text: words })

test('estimate: linear, a whole number, and never nothing', () => {
  const words = 'The quick brown fox, 12 times. '
  const once = estimateTokens(asking(text(words)))
  const often = estimateTokens(asking(text(words.repeat(1_000))))
  assert.ok(Number.isInteger(once) && once > 0)
  assert.ok(Math.abs(often / 1_000 - estimateText(words)) < 0.1, `${often}`)
  assert.ok(estimateTokens({ ...asking(), messages: [] }) > 0)
})

const more: readonly (readonly [string, ChatRequest])[] = [
  ['an image', asking({ type: 'image', at: '', source: { kind: 'url', url: 'https://x.example/y.png' } })],
  ['a page', asking({ type: 'file', at: '', source: { kind: 'data', mediaType: 'application/pdf', data: 'AAAA' } })],
  ['a text file', asking({ type: 'file', at: '', source: { kind: 'data', mediaType: 'text/plain', data: 'QUFB' } })],
  ['a call', asking({ type: 'tool-call', at: '', id: 'c', name: 'look', arguments: '{"at":"it"}' })],
  ['a thought', asking({ type: 'reasoning', at: '', text: 'Let me see.' })],
  ['a foreign block', asking({ type: 'foreign', at: '', protocol: 'anthropic-messages', raw: { type: 'search' } })],
  [
    'a tool',
    {
      ...asking(),
      tools: [{ kind: 'function', at: '', name: 'look', description: 'Looks.', parameters: { type: 'object' } }],
    },
  ],
  [
    'a result',
    {
      ...asking(),
      messages: [...asking().messages, { role: 'tool', at: '', callId: 'c', content: [] } satisfies Message],
    },
  ],
]
for (const [name, request] of more)
  test(`estimate: ${name} counts`, () => assert.ok(estimateTokens(request) > estimateTokens(asking())))

/** The first and the last character of each class, and what one of it weighs. */
const characters: readonly (readonly [string, string, number])[] = [
  ['letters', 'azAZ', 0.23],
  ['marks beside the letters', '`{@[/:', 0.5],
  ['digits', '09', 0.4],
  ['blanks', ' \t\n\r', 0.1],
  ['control characters', '\b\u000e\u001f', 0.5],
  ['the last of ASCII', '\u007f', 0.5],
  ['letters of other alphabets', '\u0080\u1fff', 0.4],
  ['signs', '\u2000\u2e7f', 1],
  ['wide characters', '\u2e80\ud7ff\uf900\ufaff\uff00\uffff', 0.85],
  ['between them', '\ud800\uf8ff\ufb00\ufeff', 1],
]
for (const [name, letters, weight] of characters)
  test(`estimate: ${name} weigh ${weight}`, () => {
    for (const letter of letters) assert.ok(Math.abs(estimateText(letter) - weight) < 1e-9, JSON.stringify(letter))
  })

/** Tokens a request is beyond one that says nothing (7: its frame of 3, one message of 4). */
const weights: readonly (readonly [string, ChatRequest, number])[] = [
  ['nothing', asking(), 0],
  ['ten words of one letter', asking(text('a a a a a a a a a a ')), 4],
  ['a refusal', asking({ type: 'refusal', at: '', text: '0'.repeat(10) }), 4],
  ['a thought', asking({ type: 'reasoning', at: '', text: '0'.repeat(10) }), 4],
  ['an image', asking({ type: 'image', at: '', source: { kind: 'url', url: 'x' } }), 1_500],
  ['sound', asking({ type: 'audio', at: '', data: 'A', format: 'wav' }), 1_500],
  [
    'a page',
    asking({ type: 'file', at: '', source: { kind: 'data', mediaType: 'application/text/', data: 'A' } }),
    1_500,
  ],
  ['a page elsewhere', asking({ type: 'file', at: '', source: { kind: 'url', url: 'text/' } }), 1_500],
  // 1,000 characters of base64 are 750 bytes.
  [
    'a text file',
    asking({ type: 'file', at: '', source: { kind: 'data', mediaType: 'text/plain', data: 'A'.repeat(1_000) } }),
    173,
  ],
  ['a call', asking({ type: 'tool-call', at: '', id: 'c', name: '00000', arguments: '0'.repeat(10) }), 14],
  ['what is foreign', asking({ type: 'foreign', at: '', protocol: 'openai-chat', raw: { a: 0 } }), 3],
  ['a second message', { ...asking(), messages: [...asking().messages, ...asking().messages] }, 4],
  ['a result', { ...asking(), messages: [{ role: 'tool', at: '', callId: 'c', content: [] }] }, 8],
  [
    'a tool',
    {
      ...asking(),
      tools: [{ kind: 'function', at: '', name: '00000', description: '0'.repeat(10), parameters: { a: 0 } }],
    },
    17,
  ],
  ['a tool with nothing said of it', { ...asking(), tools: [{ kind: 'function', at: '', name: '00000' }] }, 10],
  ['a tool of text', { ...asking(), tools: [{ kind: 'custom', at: '', name: '00000', format: { a: 0 } }] }, 13],
  [
    'a tool of a vendor',
    { ...asking(), tools: [{ kind: 'foreign', at: '', protocol: 'openai-chat', raw: { a: 0 } }] },
    11,
  ],
]
for (const [name, request, tokens] of weights)
  test(`estimate: ${name} is ${tokens} more`, () => {
    const found = estimateTokens(request) - 7
    assert.ok(Math.abs(found - tokens) <= 1, `${found}`)
  })

/** Only text: what a vendor counts for its own tools, for thinking or for a search is not in the question. */
const plain = ({ messages, tools, settings, extras }: ChatRequest): boolean =>
  tools.length === 0 &&
  extras.every(({ essential, name }) => !essential && name !== 'thinking') &&
  !settings.format &&
  !settings.thinkingBudget &&
  messages.every(({ content }) => content.every(({ type }) => type === 'text'))

/** The estimate over what was counted, for every recorded plain question of at least so many tokens. */
const ratios = (api: 'messages' | 'chat', provider: string, least: number): number[] => {
  const protocol = protocols[api === 'messages' ? 'anthropic-messages' : 'openai-chat']
  return recordingsOf(api)
    .filter((one) => one.provider === provider && !one.chunks && !one.trimmed && (one.status ?? 200) < 400)
    .flatMap(({ request, response }) => {
      const asked = isObject(request) ? protocol.decodeRequest(request) : undefined
      const counted = fold(protocol.decodeAnswer(response)).usage?.input ?? 0
      return asked?.ok && plain(asked.value) && counted >= least ? [estimateTokens(asked.value) / counted] : []
    })
    .sort((one, other) => one - other)
}

for (const [api, provider] of [
  ['messages', 'anthropic'],
  ['chat', 'openai'],
] as const)
  test(`estimate: what ${provider} counted for recorded questions`, { skip: skipWithoutRecordings }, () => {
    const found = ratios(api, provider, 20)
    assert.ok(found.length >= 10, `${found.length} questions`)
    const half = found[Math.floor(found.length / 2)] ?? 0
    assert.ok(half > 0.8 && half < 1.25, `the middle one: ${half}`)
    assert.ok((found[0] ?? 0) > 0.55 && (found.at(-1) ?? 9) < 1.45, `${found[0]} to ${found.at(-1)} of ${found.length}`)
  })

test('estimate: of a long question a sample is counted, which is near the whole', () => {
  const words = texts.map(([, , text]) => text).join(' ')
  const many = words.repeat(Math.ceil(3_000_000 / words.length))
  const part = (text: string): Part => ({ type: 'text', at: 'x', text })
  const ask = (content: Part[]): number =>
    estimateTokens({
      model: 'm',
      stream: false,
      tools: [],
      settings: {},
      extras: [],
      messages: [{ role: 'user', at: 'x', content }],
    })
  const right = estimateText(many)
  assert.ok(Math.abs(ask([part(many)]) / right - 1) < 0.05)
  const pieces = Array.from({ length: 1_000 }, (_, at) => part(many.slice(at * 3_000, (at + 1) * 3_000)))
  assert.ok(Math.abs(ask(pieces) / right - 1) < 0.05)
})
