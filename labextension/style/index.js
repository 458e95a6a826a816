import './panel.css';
import './jobs.css';
import './jobview.css';
import './curves.css';
import './runs.css';
import './overview.css';
import './batch.css';
import './tab.css';
