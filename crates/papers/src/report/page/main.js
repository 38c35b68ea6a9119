// Table of contents, and the start of all scripts.

const beginContents = () => {
  const contents = document.getElementById("contents");
  const links = new Map();
  document.querySelectorAll("main h2").forEach((head, i) => {
    head.id = `section-${i + 1}`;
    const link = make("a", { href: `#${head.id}`, onclick: (event) => {
      event.preventDefault();
      goTo(head.id);
    } }, head.textContent);
    contents.append(link);
    links.set(head.parentElement, link);
  });
  const seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      links.get(target).classList.toggle("here", isIntersecting);
    }
  }, { rootMargin: "-40% 0px -55% 0px" });
  links.forEach((_, section) => seen.observe(section));
};

beginContents();
beginTables();
beginPlots();
beginSweeps();
beginFilters();
document.body.append(panel);
beginFabric();
if (address.has("section")) goTo(address.get("section"));
addEventListener("keydown", (event) => {
  if (event.key === "Escape") hideFlow();
});
