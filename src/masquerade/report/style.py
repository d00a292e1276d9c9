"""How the page looks, on a phone and a wide screen, by day, by night and on paper."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --paper: #fff; --line: #c9cedb; --soft: #f3f5f9;
  --link: #14507e; --bad: #8c2f1b; --bad-soft: #fbe4df; --good: #1f5c3b; --good-soft: #e2f1e8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ebf2; --paper: #14181f; --line: #3d4554;
  --soft: #1f2530; --link: #9cccf5; --bad: #ffc9bb; --bad-soft: #4a1d12; --good: #b9ebcc;
  --good-soft: #153a26; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 1.5rem auto;
  padding: 0 1rem; color: var(--ink); background: var(--paper); overflow-wrap: anywhere; }
a { color: var(--link); } h1 { margin-bottom: 0; }
h2 { margin-top: 2.2rem; border-bottom: 1px solid var(--line); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; overflow-wrap: normal; }
th, td { text-align: left; vertical-align: top; padding: .45rem .6rem;
  border-bottom: 1px solid var(--line); }
th, pre { background: var(--soft); }
pre { padding: .8rem; overflow-x: auto; font-size: 13px; }
.stamp { display: inline-block; padding: .15rem .6rem; border-radius: .3rem; font-weight: 600; }
.private { background: var(--bad-soft); color: var(--bad); }
.public { background: var(--good-soft); color: var(--good); }
figure { margin: 1rem 0; } figcaption { font-size: 14px; }
svg, video, img { max-width: 100%; height: auto; }
figure > svg { background: #fff; color: #1c2430; }
.pair { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 18rem),
  1fr)); } .pair figure { margin: 0; }
.pair video, .pair img { width: 100%; image-rendering: auto; background: #000; }
.controls { display: flex; gap: .8rem; align-items: center; margin: .8rem 0; }
.controls input { flex: 1; min-width: 0; } button { font: inherit; padding: .3rem 1rem; }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.skip { position: absolute; left: -99rem; } .skip:focus { left: 1rem; background: var(--paper); }
@media (prefers-reduced-motion: reduce) { * { animation: none !important;
  transition: none !important; scroll-behavior: auto !important; } }
@media print { .controls, .skip { display: none; } body { max-width: none; }
  figure, tr { break-inside: avoid; } }
"""

# One button and one slider move all films of a group; nothing plays before it is asked to.
SCRIPT = """
for (const group of document.querySelectorAll('[data-films]')) {
  const films = [...group.querySelectorAll('video')];
  const button = group.querySelector('button'), slider = group.querySelector('input');
  const said = (is) => { button.textContent = is ? 'Pause' : 'Play'; };
  button.addEventListener('click', () => {
    const plays = films[0].paused;
    films.forEach((film) => { plays ? film.play() : film.pause(); });
    said(plays);
  });
  slider.addEventListener('input', () => films.forEach((film) => {
    film.pause(); said(false);
    film.currentTime = slider.value / 1000 * (film.duration || 0);
  }));
  films[0].addEventListener('timeupdate', () => {
    if (!films[0].paused) slider.value = 1000 * films[0].currentTime / (films[0].duration || 1);
  });
  films[0].addEventListener('ended', () => said(false));
}
"""
