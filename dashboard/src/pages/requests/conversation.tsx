/** The conversation of a request: its turns, and the answer as the last one. Everything is a text node. */

import { useSignal } from '@preact/signals'
import type { ComponentChild } from 'preact'
import { useEffect, useMemo } from 'preact/hooks'
import type { StoredBodies } from '../../../../src/usage/bodies/recorded-calls.ts'
import { type ReadBodies, readAnswer, readRequest, resultsOf, type Turn, type TurnPart } from '../../conversation.ts'
import { count } from '../../format.ts'
import { requests as w } from '../../words/requests.ts'

/** Characters of a text, and turns, that are shown at first. */
const MOST = { text: 4_000, turns: 20 }

/** A text as Markdown once that is loaded. */
const MarkdownText = ({ text }: { readonly text: string }) => {
  const part = useSignal<((props: { readonly text: string }) => ComponentChild) | null>(null)
  const isWhole = useSignal(text.length <= MOST.text)
  useEffect(() => {
    void import('../../parts/markdown.ts').then((module) => {
      part.value = module.Markdown
    })
  }, [])
  const Markdown = part.value
  const shown = isWhole.value ? text : text.slice(0, MOST.text)
  return (
    <div class="playground-text markdown" dir="auto">
      {Markdown ? <Markdown text={shown} /> : shown}
      {!isWhole.value && (
        <button type="button" class="button small" onClick={() => (isWhole.value = true)}>
          {w.conversation.whole(count(text.length))}
        </button>
      )}
    </div>
  )
}

type FoldedProps = { readonly title: string; readonly text: string }

const Folded = ({ title, text }: FoldedProps) => (
  <details>
    <summary>
      <bdi>{title}</bdi>
    </summary>
    {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls is reached with the keyboard */}
    <pre class="code body" tabIndex={0}>
      {text}
    </pre>
  </details>
)

type Results = ReturnType<typeof resultsOf>

const ShownPart = ({ part, results }: { readonly part: TurnPart; readonly results: Results }) => {
  switch (part.kind) {
    case 'text':
      return <MarkdownText text={part.text} />
    case 'reasoning':
      return <Folded title={w.conversation.reasoning} text={part.text} />
    case 'media':
      return (
        <p class="turn-media">
          <bdi>{part.about}</bdi>
        </p>
      )
    case 'other':
      return <Folded title={w.conversation.other(part.name)} text={part.json} />
    case 'call': {
      const result = results.get(part.id)
      return (
        <div class="turn-tool">
          <Folded title={w.conversation.call(part.name)} text={part.json} />
          {result && <Result part={result} results={results} />}
        </div>
      )
    }
    case 'result':
      return <Result part={part} results={results} />
  }
}

type ResultProps = { readonly part: TurnPart & { readonly kind: 'result' }; readonly results: Results }

const Result = ({ part, results }: ResultProps) => (
  <details>
    <summary class={part.isError ? 'bad' : undefined}>
      {part.isError ? w.conversation.failedResult : w.conversation.result}
    </summary>
    {part.parts.map((one, at) => (
      <ShownPart key={at} part={one} results={results} />
    ))}
  </details>
)

const ShownTurn = ({ turn, results }: { readonly turn: Turn; readonly results: Results }) => {
  // The result of a call is beside it.
  const parts = turn.parts.filter((part) => part.kind !== 'result' || results.get(part.id) !== part)
  if (parts.length === 0) return null
  return (
    <li class="turn" data-role={turn.role}>
      <h4>{w.conversation.role(turn.role)}</h4>
      {parts.map((part, at) => (
        <ShownPart key={at} part={part} results={results} />
      ))}
    </li>
  )
}

const Unread = ({ read, what }: { readonly read: ReadBodies; readonly what: string }) =>
  'problem' in read ? (
    <p class="dim small">{w.conversation.unread(what, w.conversation.problems[read.problem])}</p>
  ) : null

/** The answer that the client received: of the last attempt that succeeded; null: there was none. */
const answerOf = ({ attempts }: StoredBodies) =>
  attempts.findLast(({ status }) => status !== null && status >= 200 && status < 300)?.answer ?? null

export const Conversation = ({ bodies }: { readonly bodies: StoredBodies }) => {
  const isWhole = useSignal(false)
  const { request, answer, turns, results } = useMemo(() => {
    const body = answerOf(bodies)
    const read = { request: readRequest(bodies.request), answer: body && readAnswer(body) }
    const all = [read.request, read.answer].flatMap((one) => (one && 'turns' in one ? one.turns : []))
    return { ...read, turns: all, results: resultsOf(all) }
  }, [bodies])
  const hidden = isWhole.value ? 0 : Math.max(0, turns.length - MOST.turns)
  return (
    <div class="stack">
      <Unread read={request} what={w.sheet.request} />
      {hidden > 0 && (
        <button type="button" class="button small" onClick={() => (isWhole.value = true)}>
          {w.conversation.earlier(hidden)}
        </button>
      )}
      <ol class="turns">
        {turns.slice(hidden).map((turn, at) => (
          <ShownTurn key={hidden + at} turn={turn} results={results} />
        ))}
      </ol>
      {answer ? (
        <Unread read={answer} what={w.conversation.answer} />
      ) : (
        <p class="dim small">{w.conversation.noAnswer}</p>
      )}
    </div>
  )
}
