import assert from 'node:assert/strict'
import { test } from 'node:test'
import { markdownNodes } from '../../../dashboard/src/parts/markdown.ts'

/** Elements as text: `<p>a <em>b</em></p>`, in which a `<` of a text is `&lt;`. */
const shown = (node: unknown): string => {
  if (node === null || node === undefined || typeof node === 'boolean') return ''
  if (Array.isArray(node)) return node.map(shown).join('')
  if (typeof node !== 'object' || !('props' in node)) return String(node).replaceAll('<', '&lt;')
  const { type, props } = node as { type: unknown; props: { readonly [name: string]: unknown } }
  const inner = shown(props.children)
  if (typeof type !== 'string') return inner
  const href = props.href === undefined ? '' : ` ${props.href}`
  const start = props.start === undefined || props.start === 1 ? '' : ` ${props.start}`
  return `<${type}${href}${start}>${inner}</${type}>`
}
const html = (text: string): string | null => {
  const nodes = markdownNodes(text)
  return nodes && shown(nodes)
}

for (const [name, text, expected] of [
  ['paragraphs', 'one\ntwo\n\nthree', '<p>one\ntwo</p><p>three</p>'],
  ['headings', '# One\ntext\n### Two ##', '<p>One</p><p>text</p><p>Two</p>'],
  [
    'emphasis',
    '**b** *e* ***both*** ~~s~~ __b__ _e_',
    '<p><strong>b</strong> <em>e</em> <strong><em>both</em></strong> <s>s</s> <strong>b</strong> <em>e</em></p>',
  ],
  ['emphasis within emphasis', '*a **b** c*', '<p><em>a <strong>b</strong> c</em></p>'],
  ['stars and lines that are none', '2 * 3 * 4, snake_case_name, a_b_', '<p>2 * 3 * 4, snake_case_name, a_b_</p>'],
  ['code in a line', '`a*b*` and ``x ` y``', '<p><code>a*b*</code> and <code>x ` y</code></p>'],
  ['escapes', '\\*no\\* 1 \\< 2', '<p>*no* 1 &lt; 2</p>'],
  ['entities', 'a &lt; &amp; &#65;&#x42; &nope;', '<p>a &lt; & AB &nope;</p>'],
  ['fenced code', '```js\nif (a < b) *x*\n\n  y\n```\nafter', '<pre>if (a &lt; b) *x*\n\n  y</pre><p>after</p>'],
  ['a fence without its end', '~~~\nx', '<pre>x</pre>'],
  ['indented code', '    a\n    b\nc', '<pre>a\nb</pre><p>c</p>'],
  ['a list after a text', 'These:\n- one\n- two', '<p>These:</p><ul><li>one</li><li>two</li></ul>'],
  [
    'a list in a list',
    '1. one\n   - a\n   - b\n2. two',
    '<ol><li>one<ul><li>a</li><li>b</li></ul></li><li>two</li></ol>',
  ],
  ['a list with paragraphs', '- one\n\n  more\n- two', '<ul><li><p>one</p><p>more</p></li><li><p>two</p></li></ul>'],
  [
    'code in a list',
    '2. one\n\n   ```\n   x\n   ```\n3. two',
    '<ol 2><li><p>one</p><pre>x</pre></li><li><p>two</p></li></ol>',
  ],
  ['tasks', '- [x] done\n- [ ] open', '<ul><li>☑ done</li><li>☐ open</li></ul>'],
  ['a quote', '> a\n> > b\n\nc', '<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote><p>c</p>'],
  ['a rule', 'a\n\n---\n* * *\nb', '<p>a</p><hr></hr><hr></hr><p>b</p>'],
  [
    'a table',
    '| a | b |\n|---|--:|\n| 1 | `x \\| y` |\n| 2 |',
    '<div><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td><code>x | y</code></td></tr><tr><td>2</td><td></td></tr></tbody></table></div>',
  ],
  ['a line with a bar', 'a | b\nc', '<p>a | b\nc</p>'],
  ['breaks', 'a  \nb\\\nc', '<p>a<br></br>b<br></br>c</p>'],
  [
    'links',
    '[a *b*](https://x.test/y_(z) "t") https://x.test/q?a=1. <https://y.test>',
    '<p><a https://x.test/y_(z)>a <em>b</em></a> <a https://x.test/q?a=1>https://x.test/q?a=1</a>. <a https://y.test>https://y.test</a></p>',
  ],
  [
    'links that lead elsewhere',
    '[a](javascript:alert(1)) [b](//x.test) [c](<data:x y>) [d]( JAVASCRIPT:x)',
    '<p>a (<code>javascript:alert(1)</code>) b (<code>//x.test</code>) c (<code>data:x y</code>) [d]( JAVASCRIPT:x)</p>',
  ],
  ['images', '![a *b*](https://x.test/p.png)', '<p>a *b* (<code>https://x.test/p.png</code>)</p>'],
  [
    'HTML',
    '<img src=x onerror="alert(3)">\n\n<script>\n*a*',
    '<p>&lt;img src=x onerror="alert(3)"></p><p>&lt;script>\n<em>a</em></p>',
  ],
] as const)
  test(`Markdown: ${name}`, () => assert.equal(html(text), expected))

test('what is too long or nested too deep stays a text', () => {
  for (const text of [
    '>'.repeat(20_000),
    'x'.repeat(50_001),
    Array.from({ length: 40 }, (_, at) => `${' '.repeat(2 * at)}- x`).join('\n'),
  ])
    assert.equal(html(text), null)
})

test('two texts of 50,000 characters take less than 4 s', () => {
  const parts = [
    '*',
    '**a ',
    '_a ',
    '`',
    '` ',
    '[',
    '![a](',
    '[a](b ',
    '](',
    '<',
    'https://',
    'https://,',
    '~~a ',
    '\\',
    '&',
    '| ',
    '- ',
    '-',
    '1. ',
    '> ',
    '>',
    '#',
    '# ',
    ' ',
    '\n',
    '\n- ',
    '\n1. ',
    '\n>',
    '\n```',
    '\n|',
    '\n|-|',
    '[a](b "',
    '[a](<',
    '* ',
    '*a **',
    '(',
    '[[a]',
    '    ',
    ' \n',
    '- \n\n',
    '*a `',
    '***',
    '_*',
    '__a',
  ]
  for (const part of parts) {
    const before = performance.now()
    html(part.repeat(50_000 / part.length))
    html(`${part.repeat(49_000 / part.length)}x`)
    const took = performance.now() - before
    assert.ok(took < 4_000, `${JSON.stringify(part)}: ${Math.round(took)} ms`)
  }
})
