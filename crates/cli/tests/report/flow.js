// Returns the content of the panel for the clicked flow.
async () => {
  const panel = document.getElementById("flow");
  for (let i = 0; i < 600 && panel.hidden; i++) {
    await new Promise((then) => setTimeout(then, 50));
  }
  const shown = !panel.hidden;
  const facts = [...panel.querySelectorAll("dt")]
    .map((key) => [key.textContent, key.nextElementSibling.textContent]);
  const plots = panel.querySelectorAll(".main-svg").length;
  const way = document.querySelectorAll("figure.fabric .link.path").length;
  panel.querySelector("button").click();
  return { shown, facts: Object.fromEntries(facts), plots, way, closed: panel.hidden };
}
