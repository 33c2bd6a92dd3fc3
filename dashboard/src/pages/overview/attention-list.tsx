/** What an operator should look at, grouped by severity. */
import { useSignal } from '@preact/signals'
import { placePath, toPage, withParam } from '../../address.ts'
import { ATTENTION_GROUPS, type Attention } from '../../attention.ts'
import { count } from '../../format.ts'
import { current } from '../../store.ts'
import { overviewWords as w } from '../../words/overview.ts'

/** Lines of a group before its button. */
const MOST = 3

const hrefOf = ({ page, object, show }: Attention): string =>
  placePath(withParam(toPage(current.value, page, object), 'show', show ? [show] : []))

const Line = (line: Attention) => (
  <li>
    <span class={line.tone} aria-hidden="true">
      {line.tone === 'bad' ? '◆' : '▲'}
    </span>
    <span class="change-text">
      <a href={hrefOf(line)}>{line.text}</a>
      {line.detail !== '' && <span class="dim"> – {line.detail}</span>}
    </span>
  </li>
)

const Group = ({ title, lines }: { readonly title: string; readonly lines: readonly Attention[] }) => {
  const isAll = useSignal(false)
  const rest = lines.length - MOST
  return (
    <section aria-label={title}>
      <h3 class="small dim">{title}</h3>
      <ul class="overview-attention">
        {(isAll.value ? lines : lines.slice(0, MOST)).map((line) => (
          <Line key={line.id} {...line} />
        ))}
      </ul>
      {rest > 0 && (
        <button
          type="button"
          class="button quiet small"
          aria-expanded={isAll.value}
          onClick={() => {
            isAll.value = !isAll.value
          }}
        >
          {isAll.value ? w.fewer : w.moreAttention(rest)}
        </button>
      )}
    </section>
  )
}

export const AttentionList = ({ lines }: { readonly lines: readonly Attention[] }) => (
  <>
    {ATTENTION_GROUPS.map((group) => {
      const own = lines.filter((line) => line.group === group)
      return (
        own.length > 0 && <Group key={group} title={`${w.attentionGroups[group]} (${count(own.length)})`} lines={own} />
      )
    })}
  </>
)
