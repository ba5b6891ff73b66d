//! Small SVG line charts, legible on light and on dark ground: nothing is filled, text and grid are a middle grey, and
//! each line has a colour of even contrast to both, a dash pattern of its own and its name in the legend.

use std::fmt::Write as _;

/// Colours of lines, in order; told apart by the colour-blind too.
const COLOURS: [&str; 4] = ["#3b8eea", "#e07b00", "#2ca05a", "#c050b0"];
const DASHES: [&str; 4] = ["", "7 3", "2 3", "9 3 2 3"];
const GREY: &str = "#808890";
const WIDTH: f64 = 920.0;
const MARGIN_LEFT: f64 = 62.0;
const MARGIN_RIGHT: f64 = 24.0;
const MARGIN_TOP: f64 = 34.0;
const MARGIN_BOTTOM: f64 = 46.0;
const HEADER: f64 = 66.0;

/// One axis from `low` to `high` with labelled ticks.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What it shows, with its unit.
    pub label: &'static str,
    /// Value at the left or lower end; above 0 when `log`.
    pub low: f64,
    /// Value at the right or upper end.
    pub high: f64,
    /// Logarithmic.
    pub log: bool,
    /// Where ticks are, and their text.
    pub ticks: Vec<(f64, String)>,
}

impl Axis {
    fn at(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }
}

/// A named line. Lines with the same `style` in different panels are the same thing.
#[derive(Clone, Debug)]
pub struct Line {
    /// Index into the chart's legend.
    pub style: usize,
    /// Points in data units, in order of x.
    pub points: Vec<(f64, f64)>,
    /// A thin reference line.
    pub reference: bool,
}

/// One pair of axes with lines.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Heading.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// What is drawn.
    pub lines: Vec<Line>,
}

/// Panels in rows under a title and a legend.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Heading.
    pub title: String,
    /// Names of the line styles, at most four.
    pub legend: Vec<String>,
    /// Panels, row by row.
    pub panels: Vec<Panel>,
    /// Panels in a row.
    pub columns: usize,
    /// Height of one panel in pixels.
    pub panel_height: f64,
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn text(out: &mut String, (x, y): (f64, f64), anchor: &str, extra: &str, content: &str) {
    let content = escape(content);
    let _ = writeln!(out, r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}"{extra}>{content}</text>"#);
}

fn stroke(style: usize) -> (&'static str, &'static str) {
    (COLOURS[style % COLOURS.len()], DASHES[style % DASHES.len()])
}

impl Panel {
    fn draw(&self, out: &mut String, left: f64, top: f64, width: f64, height: f64) {
        let (x0, y0) = (left + MARGIN_LEFT, top + MARGIN_TOP);
        let (w, h) = (width - MARGIN_LEFT - MARGIN_RIGHT, height - MARGIN_TOP - MARGIN_BOTTOM);
        text(out, (x0, y0 - 10.0), "start", r#" font-weight="600""#, &self.title);
        for (value, label) in &self.y.ticks {
            let y = y0 + h * (1.0 - self.y.at(*value));
            let _ = writeln!(
                out,
                r#"<path d="M{x0:.1} {y:.1}h{w:.1}" stroke="{GREY}" stroke-opacity="0.35" stroke-width="0.7"/>"#
            );
            text(out, (x0 - 7.0, y + 4.0), "end", "", label);
        }
        for (value, label) in &self.x.ticks {
            let x = x0 + w * self.x.at(*value);
            let _ =
                writeln!(out, r#"<path d="M{x:.1} {:.1}v5" stroke="{GREY}" stroke-width="0.8"/>"#, y0 + h);
            text(out, (x, y0 + h + 18.0), "middle", "", label);
        }
        let _ = writeln!(
            out,
            r#"<path d="M{x0:.1} {y0:.1}v{h:.1}h{w:.1}" fill="none" stroke="{GREY}" stroke-width="1"/>"#
        );
        text(out, (x0 + w / 2.0, y0 + h + 37.0), "middle", "", self.x.label);
        let (lx, ly) = (left + 13.0, y0 + h / 2.0);
        let turned = format!(r#" transform="rotate(-90 {lx:.1} {ly:.1})""#);
        text(out, (lx, ly), "middle", &turned, self.y.label);
        for line in &self.lines {
            let mut path = String::new();
            for (index, (x, y)) in line.points.iter().enumerate() {
                let command = if index == 0 { 'M' } else { 'L' };
                let _ = write!(
                    path,
                    "{command}{:.1} {:.1}",
                    x0 + w * self.x.at(*x),
                    y0 + h * (1.0 - self.y.at(*y))
                );
            }
            let (colour, dash) = stroke(line.style);
            let look = if line.reference {
                r#" stroke-width="1" stroke-opacity="0.55""#.to_owned()
            } else {
                format!(r#" stroke-width="2" stroke-dasharray="{dash}""#)
            };
            let _ = writeln!(
                out,
                r#"<path d="{path}" fill="none" stroke="{colour}" stroke-linejoin="round"{look}/>"#
            );
        }
    }
}

impl Chart {
    /// The chart as a complete SVG document.
    pub fn to_svg(&self) -> String {
        let columns = self.columns.max(1);
        let rows = self.panels.len().div_ceil(columns);
        let height = HEADER + rows as f64 * self.panel_height;
        let mut out = String::new();
        let _ = writeln!(
            out,
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" font-family="system-ui, -apple-system, 'Segoe UI', sans-serif" font-size="12" fill="{GREY}" role="img">"#
        );
        let _ = writeln!(out, "<title>{}</title>", escape(&self.title));
        text(&mut out, (MARGIN_LEFT, 22.0), "start", r#" font-size="15" font-weight="600""#, &self.title);
        let mut x = MARGIN_LEFT;
        for (style, name) in self.legend.iter().enumerate() {
            let (colour, dash) = stroke(style);
            let _ = writeln!(
                out,
                r#"<path d="M{x:.1} 42h30" stroke="{colour}" stroke-width="2.5" stroke-dasharray="{dash}"/>"#
            );
            text(&mut out, (x + 37.0, 46.0), "start", "", name);
            x += 60.0 + 7.0 * name.chars().count() as f64;
        }
        let width = WIDTH / columns as f64;
        for (index, panel) in self.panels.iter().enumerate() {
            let (column, row) = (index % columns, index / columns);
            let top = HEADER + row as f64 * self.panel_height - 8.0;
            panel.draw(&mut out, column as f64 * width, top, width, self.panel_height);
        }
        out.push_str("</svg>\n");
        out
    }
}
