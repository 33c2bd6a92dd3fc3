/**
 * The search of the documentation. It runs in the browser, so that it works at a gateway without a network and on a server of
 * static files alike. `find.d.ts` has its types.
 */

/** Words that say nothing about the page. */
const IGNORED = new Set(
  'a an and are as at be by can do does for from get have how i if in is it its my of on or our the their then this to use what when where which who why with you your'.split(
    ' ',
  ),
)

/** Most results of one search. */
const MOST = 20

/** The words of a question, in lower case. */
export const wordsOf = (question) => {
  const words = question.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? []
  const telling = words.filter((word) => !IGNORED.has(word))
  return [...new Set(telling.length > 0 ? telling : words)].slice(0, 12)
}

/** A word without its ending: "budgets" finds "budget", "disabling" finds "disable". */
const stemOf = (word) => (word.length > 4 ? word.replace(/(?:ing|ed|es|s|e)$/, '') : word)

/** How often a text has a word. Within another word it counts for little. */
const countOf = (text, stem) => {
  let count = 0
  for (let at = text.indexOf(stem); at !== -1; at = text.indexOf(stem, at + stem.length))
    count += at === 0 || !/[\p{L}\p{N}]/u.test(text[at - 1] ?? '') ? 1 : 0.2
  return count
}

/** Constants of BM25: how soon a word that returns adds nothing, and how much a long text is discounted. */
const SATURATION = 1.2
const LENGTH = 0.75
/** What a list, such as that of all commands, counts beside a guide. */
const LIST = 0.6

export const search = (sections, question) => {
  const texts = sections.map(({ heading, page, text }) => ({
    heading: heading.toLowerCase(),
    page: page.toLowerCase(),
    text: text.toLowerCase(),
  }))
  const usual = texts.reduce((sum, { text }) => sum + text.length, 1) / Math.max(1, texts.length)
  const scores = texts.map(() => 0)
  for (const stem of wordsOf(question).map(stemOf)) {
    const counts = texts.map(({ heading, page, text }) => {
      const count = countOf(text, stem)
      const most = SATURATION * (1 - LENGTH + (LENGTH * text.length) / usual)
      const named = 1.5 * Math.min(1, countOf(heading, stem)) + 0.75 * Math.min(1, countOf(page, stem))
      return (count * (SATURATION + 1)) / (count + most) + named
    })
    // A word that few sections have says more.
    const having = counts.filter((count) => count > 0).length
    const rarity = Math.log(1 + (texts.length - having + 0.5) / (having + 0.5))
    for (const [index, count] of counts.entries()) scores[index] += rarity * count
  }
  return sections
    .map((section, index) => ({ section, score: (scores[index] ?? 0) * (section.isList ? LIST : 1) }))
    .filter(({ score }) => score > 0)
    .sort((one, other) => other.score - one.score)
    .slice(0, MOST)
    .map(({ section }) => section)
}

/** Characters of text around the first word. */
const AROUND = 90

/** The part of a text around the first of the words. */
export const excerptOf = (text, question) => {
  const lower = text.toLowerCase()
  const places = wordsOf(question)
    .map((word) => lower.indexOf(stemOf(word)))
    .filter((at) => at !== -1)
  const first = places.length > 0 ? Math.min(...places) : 0
  const start = first <= AROUND ? 0 : lower.lastIndexOf(' ', first - AROUND) + 1
  const end = start + 3 * AROUND
  return `${start > 0 ? '… ' : ''}${text.slice(start, end).trim()}${end < text.length ? ' …' : ''}`
}

/** Shows the results in the page. */
const start = async (page) => {
  const field = page.querySelector('main input[name=q]')
  const results = page.querySelector('#results')
  if (!(field instanceof HTMLInputElement) || !(results instanceof HTMLElement)) return
  const sections = await (await fetch('sections.json')).json()
  const show = () => {
    const question = field.value.trim()
    history.replaceState(null, '', question === '' ? 'find.html' : `find.html?q=${encodeURIComponent(question)}`)
    const found = search(sections, question)
    const items = found.map(({ file, anchor, page: title, heading, text }) => {
      const item = page.createElement('li')
      const link = page.createElement('a')
      link.href = `${file}#${encodeURIComponent(anchor)}`
      link.textContent = heading === title ? title : `${title}: ${heading}`
      const excerpt = page.createElement('p')
      excerpt.textContent = excerptOf(text, question)
      item.append(link, excerpt)
      return item
    })
    const count = page.createElement('p')
    count.textContent = found.length === 0 ? 'No page has these words.' : ''
    const list = page.createElement('ol')
    list.append(...items)
    results.replaceChildren(...(question === '' ? [] : [count, list]))
  }
  field.value = new URLSearchParams(location.search).get('q') ?? ''
  field.addEventListener('input', show)
  field.form?.addEventListener('submit', (event) => event.preventDefault())
  field.focus()
  show()
}

if (typeof document !== 'undefined') void start(document)
