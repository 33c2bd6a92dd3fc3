/** The site that is made from the pages: complete, without a dead link, and without anything that a page could bring in. */
import assert from 'node:assert/strict'
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, posix } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { renderPage } from '../../dashboard/site/markdown.ts'
import { llmsText, pagesIn, sectionsIn } from '../../dashboard/site/pages.ts'
import { writeSite } from '../../scripts/pages/site.ts'
import { KINDS } from '../../src/core/failure.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const DOCS = join(ROOT, 'docs')
const matches = (text: string, pattern: RegExp): readonly string[] =>
  [...text.matchAll(pattern)].map(([, found = '']) => found)

describe('the site', () => {
  const site = mkdtempSync(join(tmpdir(), 'headgate-site-'))
  const read = (path: string) => readFileSync(join(site, path), 'utf8')
  before(() => writeSite(site))
  after(() => rmSync(site, { recursive: true, force: true }))

  test('has every page, as HTML and as Markdown', () => {
    for (const path of pagesIn(DOCS))
      for (const file of [path, path.replace(/md$/, 'html')]) assert.ok(existsSync(join(site, 'docs', file)), file)
  })

  test('every link leads to a file and an anchor of the site, and no ID is used twice', () => {
    const pages = globSync('docs/**/*.html', { cwd: site })
    const ids = new Map(pages.map((page) => [page, matches(read(page), / id="([^"]+)"/g)]))
    let count = 0
    for (const page of pages) {
      assert.equal(new Set(ids.get(page)).size, ids.get(page)?.length, page)
      for (const link of matches(read(page), / (?:href|src)="([^"]+)"/g)) {
        if (/^https?:/.test(link)) continue
        count++
        const [path = '', anchor] = link.split('#')
        const file = path === '' ? page : posix.join(posix.dirname(page), path)
        assert.ok(existsSync(join(site, file)), `${page}: ${link}`)
        if (anchor !== undefined) assert.ok(ids.get(file)?.includes(decodeURIComponent(anchor)), `${page}: ${link}`)
      }
    }
    assert.ok(count > 1_000, String(count))
  })

  test('the page of errors has an anchor for every code', () => {
    const page = read('docs/errors.html')
    for (const { code } of Object.values(KINDS)) assert.ok(page.includes(`<tr id="${code}">`), code)
  })

  test('llms-full.txt has every page whole, in the order of the list', () => {
    const whole = read('llms-full.txt')
    const positions = sectionsIn(readFileSync(join(DOCS, 'index.md'), 'utf8'))
      .flatMap(({ pages }) => pages)
      .map(({ path }) => whole.indexOf(readFileSync(join(DOCS, path), 'utf8').trim()))
    assert.ok(positions.every((at, index) => at > (positions[index - 1] ?? 0)))
    for (const path of pagesIn(DOCS)) assert.ok(whole.includes(readFileSync(join(DOCS, path), 'utf8').trim()), path)
  })

  test('llms.txt leads to pages, and is short', () => {
    const text = read('llms.txt')
    for (const path of matches(text, /\]\((\S+)\)/g)) assert.ok(existsSync(join(site, path)), path)
    assert.ok(Buffer.byteLength(text) <= 10_240, `${Buffer.byteLength(text)} bytes`)
  })
})

test('llms.txt of the repository is current', () => {
  assert.equal(readFileSync(join(ROOT, 'llms.txt'), 'utf8'), llmsText(DOCS), 'run npm run site')
})

test('the list in docs/index.md has every page once, by its title', () => {
  const listed = sectionsIn(readFileSync(join(DOCS, 'index.md'), 'utf8')).flatMap(({ pages }) => pages)
  // The list of decision records is a page of its own.
  const pages = pagesIn(DOCS).filter((path) => path !== 'index.md' && !/^decisions\/\d/.test(path))
  assert.deepEqual(listed.map(({ path }) => path).toSorted(), pages.toSorted(), 'add the page to docs/index.md')
  for (const { path, title } of listed)
    assert.equal(/^# (.+)$/m.exec(readFileSync(join(DOCS, path), 'utf8'))?.[1], title, path)
})

describe('a page', () => {
  const render = (text: string) =>
    renderPage(`# Title\n\n${text}\n`, (path) => (path === 'b.md' ? 'b.html' : null)).html

  for (const [name, text] of [
    ['a block', '<div>x</div>'],
    ['a script', '<script>alert(1)</script>'],
    ['an image', 'text <img src=x onerror=alert(1)> text'],
    ['a comment that ends early', '<!-- a --><b>x</b>'],
    ['an open comment', '<!-- a'],
    ['a declaration', '<!DOCTYPE html>'],
  ] as const)
    test(`with HTML is refused: ${name}`, () => {
      assert.throws(() => render(text), /HTML is not allowed/)
    })

  for (const address of [
    'javascript:alert(1)',
    'JAVASCRIPT:alert(1)',
    'data:text/html,x',
    '//evil.example',
    '/etc/passwd',
  ])
    test(`with a link to ${address} is refused`, () => {
      assert.throws(() => render(`[x](${address})`), /a link leads to/)
      assert.throws(() => render(`![x](${address})`), /a link leads to/)
    })

  test('keeps text as text, and comments out', () => {
    const html = render('<!-- note -->\n\na < b & `<c>` "d" [e < f](b.md#g)\n\n```sh run\necho "<h>"\n```')
    assert.doesNotMatch(html, /note|<c>|<h>/)
    assert.match(html, /a &lt; b &amp; <code class="short">&lt;c&gt;<\/code>/)
    assert.match(html, /<a href="b\.html#g">e &lt; f<\/a>/)
    assert.match(html, /<code class="language-sh">echo &quot;&lt;h&gt;&quot;\n/)
  })

  test('names a file of the repository that is no page', () => {
    assert.match(render('[the rules](../deploy/rules.yaml)'), /the rules \(<code>deploy\/rules\.yaml<\/code>\)/)
  })

  test('has anchors as the forge makes them, and for rows that begin with a name', () => {
    const html = render(
      '## Keys & budgets\n\n## 401 and 403\n\n## 401 and 403\n\n| a | b |\n|---|---|\n| `x.y` | c |\n| d `e` | f |',
    )
    assert.deepEqual(matches(html, / id="([^"]+)"/g), ['title', 'keys--budgets', '401-and-403', '401-and-403-1', 'xy'])
  })

  test('has one title', () => {
    assert.throws(() => render('# Another'), /begins with its title/)
    assert.throws(() => renderPage('text', () => null), /begins with its title/)
  })
})
