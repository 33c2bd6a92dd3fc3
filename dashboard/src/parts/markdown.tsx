/**
 * A text of a model as Markdown. Its tokens become elements of this list, never HTML: what it has of HTML is shown as text,
 * images are named and not loaded, and only links to the web can be followed.
 */

import { lexer, type Token, type Tokens } from 'marked'
import { type ComponentChild, Fragment, type JSX } from 'preact'

/** Characters above which a text stays as it is, and elements within each other. */
const MOST = { text: 50_000, depth: 24 }

const ENTITIES: { readonly [name: string]: string } = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
  nbsp: '\u00a0',
}

/** A text with the entities that models write decoded. */
const decoded = (text: string): string =>
  text.replace(/&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-z]{2,4}));/g, (whole, decimal, hex, name) => {
    if (name !== undefined) return ENTITIES[name] ?? whole
    const code = decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal)
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : whole
  })

/** The tokens of a text; null: it is too long, or too deep for the lexer. */
export const markdownTokens = (text: string): readonly Token[] | null => {
  if (text.length > MOST.text) return null
  try {
    return lexer(text)
  } catch {
    // Lists and quotes of thousands of levels end in a RangeError.
    return null
  }
}

type Render = (tokens: readonly Token[], depth: number) => ComponentChild

const cells = (row: readonly Tokens.TableCell[], Cell: 'td' | 'th', depth: number) =>
  row.map(({ tokens, align }, at) => (
    // Cells have no other name than their place.
    <Cell key={at} style={align === null ? undefined : { textAlign: align }}>
      {nodesOf(tokens, depth)}
    </Cell>
  ))

/** Headings are those of the page, so that those of an answer are none. */
const headingOf = ({ tokens, depth: level }: Tokens.Heading, depth: number): JSX.Element => (
  <p class="markdown-heading" data-level={level}>
    {nodesOf(tokens, depth)}
  </p>
)

const listOf = ({ ordered, start, items }: Tokens.List, depth: number): JSX.Element => {
  const shown = items.map(({ tokens }, at) => <li key={at}>{nodesOf(tokens, depth)}</li>)
  return ordered ? <ol start={typeof start === 'number' ? start : 1}>{shown}</ol> : <ul>{shown}</ul>
}

const tableOf = ({ header, rows }: Tokens.Table, depth: number): JSX.Element => (
  <div class="markdown-table">
    <table>
      <thead>
        <tr>{cells(header, 'th', depth)}</tr>
      </thead>
      <tbody>
        {rows.map((row, at) => (
          <tr key={at}>{cells(row, 'td', depth)}</tr>
        ))}
      </tbody>
    </table>
  </div>
)

/** A link to the web; the address of any other is text. */
const linkOf = ({ href, tokens, text }: Tokens.Link, depth: number): ComponentChild => {
  const inner = nodesOf(tokens, depth)
  if (!/^https?:\/\//i.test(href)) return href === text ? inner : [inner, ' (', <code key="address">{href}</code>, ')']
  return (
    <a href={href} title={href} target="_blank" rel="noopener noreferrer">
      {inner}
    </a>
  )
}

const nodeOf = (token: Token, depth: number): ComponentChild => {
  // The type names the members, which the union of the package does not.
  const of = <Kind extends Token>(): Kind => token as Kind
  const inner = () => nodesOf(of<Tokens.Strong>().tokens ?? [], depth)
  switch (token.type) {
    case 'space':
    case 'def':
      return null
    case 'heading':
      return headingOf(of(), depth)
    case 'paragraph':
      return <p>{inner()}</p>
    case 'strong':
      return <strong>{inner()}</strong>
    case 'em':
      return <em>{inner()}</em>
    case 'del':
      return <s>{inner()}</s>
    case 'blockquote':
      return <blockquote>{inner()}</blockquote>
    case 'list':
      return listOf(of(), depth)
    case 'table':
      return tableOf(of(), depth)
    case 'link':
      return linkOf(of(), depth)
    case 'image': {
      const { text, href } = of<Tokens.Image>()
      return [decoded(text), ' (', <code key="address">{href}</code>, ')']
    }
    case 'code':
      return <pre class="markdown-code">{of<Tokens.Code>().text}</pre>
    case 'codespan':
      return <code>{of<Tokens.Codespan>().text}</code>
    case 'br':
      return <br />
    case 'hr':
      return <hr />
    case 'checkbox':
      return of<Tokens.Checkbox>().checked ? '☑ ' : '☐ '
    case 'text':
      return of<Tokens.Text>().tokens ? inner() : decoded(of<Tokens.Text>().text)
    case 'escape':
      return of<Tokens.Escape>().text
    default:
      return token.raw
  }
}

const nodesOf: Render = (tokens, depth) =>
  depth > MOST.depth
    ? tokens.map(({ raw }) => raw).join('')
    : tokens.map((token, at) => <Fragment key={at}>{nodeOf(token, depth + 1)}</Fragment>)

export const Markdown = ({ text }: { readonly text: string }) => {
  const tokens = markdownTokens(text)
  if (!tokens) return <div class="playground-text">{text}</div>
  return <Fragment>{nodesOf(tokens, 0)}</Fragment>
}
